"""`qarena reproduce`: published pairings played by our agents. Games that the archive lacks are played, then compared.

A training that a figure needs is carried out once, and then found by its policy's name.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from hydra import compose, initialize_config_dir

from analytics.policies.relearn import training_of
from analytics.report.published import Implementation, PublishedFigure, figures, implementation, studies
from analytics.report.published.comparison import (
    ComparedFigure,
    MeasuredFigure,
    Reproduction,
    document,
    measured_figure,
    noted,
    page,
    panels,
    results_in,
)
from analytics.statistics.tally import Row, Tally
from analytics.store import policy_store
from analytics.store.archive import Archive
from analytics.store.policy_cards import PolicyCard
from analytics.store.schema import MAX_PAIRS
from quarto.errors import RequestError, nearest
from runners.arena.code import version
from runners.arena.experiment import Experiment, prepare
from runners.arena.playing import carry_out
from runners.arena.progress import Progress
from runners.arena.request import Request
from runners.arena.spec import AgentSpec, RunSpec
from runners.arena.storage import ArchiveSettings
from runners.config.agents import agent_named
from runners.config.options import CONF, load_rules
from runners.config.requests import rounding_notes
from runners.config.schemas import MAX_SEED, check_range
from runners.hosting.interruption import exit_code, interruptible
from runners.learning.training.request import TrainingRequest, check, keep, training_request_of
from runners.terminal import console
from runners.terminal.console import progress_bar
from runners.terminal.files import write_file

TEXT, CODE = "text", "code"  # variants: our agents follow the study's text, or its program
PREFIX = "published_"  # of the policies' names, which keeps them apart from the user's own
NARROW = ("figure", "player", "opponent", "seat", "published", "text", "text_agrees", "code", "code_agrees", "note")


@dataclass(frozen=True)
class PlaySettings:
    """The settings that all pairings share."""

    games: int  # of each pairing
    seed: int
    threads: int
    storage: ArchiveSettings
    command: str  # as it was typed, without the program's name


@dataclass(frozen=True)
class TrainingResult:
    """The policy that a training made, and the results of its games."""

    policy: str  # name
    learner: str  # label
    opponent: str  # label
    results: Row  # the learner's (losses, draws, wins) in the games that it learned from
    played: int  # games played by this command; 0 if the training was found


def train(
    overrides: str, storage: ArchiveSettings, command: str, stop: threading.Event, progress: Progress | None
) -> TrainingResult | None:
    """Train as ``qarena train`` does with these overrides, unless the archive has the policy; None if stopped early.

    ``overrides`` are separated by spaces. Raises the errors of a training, those for a wrong
    request before any game is played.
    """
    request = _request(overrides.split(), storage, command)
    archive = Archive.open(storage.root, create=True)
    card, played = _known(request, archive), 0
    if card is None:
        check(request)
        trained = request.trainer.train(replace(request.context, stop=stop, progress=progress))
        if trained.policy is None:
            return None
        card, played = keep(request, trained, trained.policy), trained.played
    return _result(archive, card, played)


def _request(overrides: list[str], storage: ArchiveSettings, command: str) -> TrainingRequest:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        overrides = [*overrides, f"archive.other_code={storage.other_code}"]  # which affects the training's name
        composed = compose("train", overrides=overrides, return_hydra_config=True)
        request = training_request_of(composed, composed.hydra.runtime.choices, command)
    return replace(request, context=replace(request.context, storage=storage), policy=PREFIX + request.policy)


def _known(request: TrainingRequest, archive: Archive) -> PolicyCard | None:
    """The card of the same training by the same code, if the archive has it."""
    card = policy_store.named(archive, request.policy)
    same = (
        card is not None
        and card.learned["training"] == request.training
        and card.learned["parameters"] == dict(request.settings)
        and card.code["fingerprint"] == request.code["fingerprint"]
    )
    return card if same else None


def _result(archive: Archive, card: PolicyCard, played: int) -> TrainingResult:
    """The result as the policy's card and learning curve hold it."""
    (run_id,) = card.learned["run_ids"]
    learner = training_of(archive, run_id).label
    record = archive.run(run_id)
    others = [label for label in record.labels if label != learner] if record else []
    losses, draws, wins = policy_store.read_table(archive, card, "curve").select("losses", "draws", "wins").sum().row(0)
    return TrainingResult(card.name, learner, others[0] if others else learner, (losses, draws, wins), played)


class PairingKey(NamedTuple):
    """The identity of a pairing: its rules and two labels, in alphabetical order."""

    rules: str
    first: str
    second: str


@dataclass(frozen=True)
class Side:
    """One of the two players of a figure, in one variant."""

    label: str  # without the policy that a training makes
    trainer: str  # overrides of ``qarena train`` that make its policy; "": it needs none


def sides(figure: PublishedFigure, variant: str) -> tuple[Side, Side] | None:
    """The player and the opponent of a figure; None for variant ``CODE`` if neither differs from the text."""
    both = [implementation(label, figure.version) for label in (figure.player, figure.opponent)]
    if variant == CODE and not any(ours and ours.code for ours in both):
        return None
    return _side(figure.player, both[0], variant), _side(figure.opponent, both[1], variant)


def _side(label: str, ours: Implementation | None, variant: str) -> Side:
    if ours is None:
        return Side(label, "")
    if variant == CODE and ours.code:
        return Side(ours.code, ours.code_trainer)
    return Side(ours.text, ours.trainer)


def trainings(figures: Sequence[PublishedFigure]) -> list[str]:
    """The trainings that figures need, as overrides of ``qarena train``, each once."""
    found = (sides(figure, variant) or () for figure in figures for variant in (TEXT, CODE))
    return list(dict.fromkeys(side.trainer for both in found for side in both if side.trainer))


@dataclass
class Pairings:
    """The runs that a list of figures needs, each once, with their results."""

    settings: PlaySettings
    trained: Mapping[str, TrainingResult]  # by the overrides of the training
    experiments: dict[PairingKey, Experiment] = field(default_factory=dict)
    tallies: dict[PairingKey, Tally] = field(default_factory=dict)
    _known: dict[str, AgentSpec] = field(default_factory=dict)  # by label: reading a yaml takes time

    def prepare(self, figures: Sequence[PublishedFigure]) -> None:
        """Prepare every run. Raises ``RequestError`` as ``runners.arena.experiment.prepare`` does."""
        for figure in figures:
            for variant in (TEXT, CODE):
                agents = None if figure.training else self._agents(figure, variant)
                if agents:
                    key = _key(figure, agents)
                    if key not in self.experiments:
                        self.experiments[key] = prepare(self._request(figure, agents))

    @property
    def games_left(self) -> int:
        """The number of games that the archive lacks."""
        return sum(each.games_left(self.settings.games) for each in self.experiments.values())

    def play(self, stop: threading.Event, progress: Progress | None) -> int:
        """Play the games that the archive lacks, until done or ``stop`` is set; returns the number of games played."""
        count, total = 0, _OneCount(progress) if progress else None
        if progress and self.games_left:
            progress.start(self.games_left)
        for key, experiment in self.experiments.items():
            if stop.is_set():
                break
            outcome = carry_out(experiment, f"qarena {self.settings.command}", stop, total)
            count += outcome.played
            for result in outcome.results:
                self.tallies[key] = result.tally
        return count

    def comparison(self, figure: PublishedFigure) -> ComparedFigure:
        """A figure beside the results of the games played for it."""
        return ComparedFigure(figure, self._played(figure, TEXT), self._played(figure, CODE))

    def _played(self, figure: PublishedFigure, variant: str) -> MeasuredFigure | None:
        if figure.training:
            return self._played_in_training(figure, variant)
        agents = self._agents(figure, variant)
        if agents is None:
            return None
        key = _key(figure, agents)
        tally = self.tallies.get(key)
        player, opponent = (agent.label for agent in agents)
        if tally is None or not tally.games:
            return None
        ours = tally if key.first == player else tally.swapped
        return measured_figure(figure, player, opponent, results_in(ours, figure.seat))

    def _played_in_training(self, figure: PublishedFigure, variant: str) -> MeasuredFigure | None:
        both = sides(figure, variant)
        result = self.trained.get(both[0].trainer) if both else None
        return measured_figure(figure, result.learner, result.opponent, result.results) if result else None

    def _agents(self, figure: PublishedFigure, variant: str) -> tuple[AgentSpec, AgentSpec] | None:
        """The agents of the player and the opponent; None if there are none, or one has not been trained yet."""
        both = sides(figure, variant)
        if both is None or any(side.trainer and side.trainer not in self.trained for side in both):
            return None
        return self._agent(both[0]), self._agent(both[1])

    def _agent(self, side: Side) -> AgentSpec:
        result = self.trained.get(side.trainer)
        label = with_policy(side.label, result.policy if result else None)
        if label not in self._known:
            self._known[label] = agent_named(label, self.settings.storage.root)
        return self._known[label]

    def _request(self, figure: PublishedFigure, agents: tuple[AgentSpec, AgentSpec]) -> Request:
        spec = RunSpec(load_rules(figure.rules), _in_order(agents), ((0, 1),), self.settings.seed, opening_plies=0)
        return Request(spec, self.settings.games, self.settings.threads, self.settings.storage, progress=True)


class _OneCount:
    """Reports the games of several runs as one count, which has begun."""

    def __init__(self, progress: Progress) -> None:
        self.idle, self.advance = progress.idle, progress.advance

    def start(self, games: int) -> None:
        """Do nothing."""


def with_policy(label: str, policy: str | None) -> str:
    """A label with a policy: ``rl_encoded`` becomes ``rl_encoded(policy=NAME)``. Without a policy it stays as it is."""
    if policy is None:
        return label
    return f"{label[:-1]},policy={policy})" if label.endswith(")") else f"{label}(policy={policy})"


def _in_order(agents: tuple[AgentSpec, AgentSpec]) -> tuple[AgentSpec, AgentSpec]:
    """By label, so that two figures that see one pairing from different sides share a run."""
    one, two = agents
    return (one, two) if one.label <= two.label else (two, one)


def _key(figure: PublishedFigure, agents: tuple[AgentSpec, AgentSpec]) -> PairingKey:
    first, second = _in_order(agents)
    return PairingKey(figure.rules, first.label, second.label)


@dataclass(frozen=True)
class ReproduceRequest:
    """The studies to reproduce, how to play them, and the files to write."""

    studies: tuple[str, ...]
    settings: PlaySettings
    markdown: Path | None
    html: Path | None

    @property
    def figures(self) -> list[PublishedFigure]:
        """The published figures of these studies."""
        return [figure for figure in figures() if figure.study in self.studies]


def checked(study: str | None, settings: PlaySettings, markdown: Path | None, html: Path | None) -> ReproduceRequest:
    """The request that the options of the command make; an odd number of games becomes the next even one.

    ``study`` is a list such as ``A,C``, or None for all studies. Raises ``RequestError`` for the first invalid value,
    before any file is touched.
    """
    check_range("--games", settings.games, 1, 2 * MAX_PAIRS)
    check_range("--seed", settings.seed, 0, MAX_SEED)
    check_range("--threads", settings.threads, 1, 1024)
    chosen = _studies(study)
    games = settings.games + settings.games % 2
    for note in rounding_notes("--games", settings.games, games):
        console.print_note(note)
    return ReproduceRequest(chosen, replace(settings, games=games), markdown, html)


def _studies(text: str | None) -> tuple[str, ...]:
    """The letters in ``A,C``; those of all studies for None."""
    known = [study.study for study in studies()]
    chosen = known if text is None else [part.strip().upper() for part in text.split(",")]
    for study in chosen:
        if study not in known:
            raise RequestError(f"study {study!r} does not exist{nearest(study, known)}")
    return tuple(chosen)


def reproduce(request: ReproduceRequest) -> int:
    """Play, compare, show and write; returns the exit code."""
    root = request.settings.storage.root
    with interruptible() as stop:
        trained = _trained(request, stop)
        pairings = Pairings(request.settings, trained)
        pairings.prepare(request.figures)
        with progress_bar("playing", "games") as progress:
            count = pairings.play(stop, progress) + sum(result.played for result in trained.values())
    reproduction = Reproduction(tuple(pairings.comparison(figure) for figure in request.figures))
    show(reproduction)
    _write(request, reproduction)
    if stop.is_set():
        again = f"{console.program()} {request.settings.command}"
        console.print_note(f"interrupted; all games played so far are in the archive. To continue:\n  {again}")
        return exit_code()
    done = f"{count:,} games played, all of them in {root}" if count else f"Nothing to play: {root} has all games"
    console.print_line(f"{done}.")
    return 0


def _trained(request: ReproduceRequest, stop: threading.Event) -> dict[str, TrainingResult]:
    """The results of the trainings that the figures need, by overrides; fewer than all if ``stop`` is set."""
    settings, results = request.settings, {}
    for training in trainings(request.figures):
        if stop.is_set():
            break
        overrides = f"{training} seed={settings.seed}"
        with progress_bar("playing", "games") as progress:
            result = train(overrides, settings.storage, f"qarena {settings.command}", stop, progress)
        if result:
            results[training] = result
    return results


def show(reproduction: Reproduction) -> None:
    """Print a table for each study, then the notes and the summary."""
    for study, comparisons in reproduction.studies:
        columns = {name: each for name, each in reproduction.columns(comparisons).items() if name != "where"}
        title = f"Study {study.study}: {study.title} (games won, in %)"
        narrow = [each for name, each in columns.items() if name in NARROW]
        console.show([console.tabulated([*columns.values()], title)], [console.tabulated(narrow, title)])
    terminal = console.out()
    for number, note in enumerate(reproduction.notes, 1):
        terminal.print(f"{number:>2}  {noted(note)}", markup=False, soft_wrap=not terminal.is_terminal)
    console.print_line(f"{reproduction.summary()}.")


def _made(settings: PlaySettings) -> str:
    """The command and the settings behind a report, in a sentence."""
    return (
        f"Made by `qarena {settings.command}` (quarto-arena {version()}): {settings.games:,} games of each pairing, "
        f"seed {settings.seed}."
    )


def _write(request: ReproduceRequest, reproduction: Reproduction) -> None:
    """Write the requested files. Raises ``FailureError`` if one cannot be written."""
    made = _made(request.settings)
    contents: dict[Path, str] = {}
    if request.markdown:
        contents[request.markdown] = document(reproduction, made)
    if request.html:
        contents[request.html] = page(reproduction, made, panels(reproduction))
    for path, content in contents.items():
        write_file(path, content.encode())
