"""`qarena reproduce`: published pairings played by our agents. Games that the archive lacks are played, then compared.

A training that a figure needs is carried out once; later its policy is found by name.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from hydra import compose, initialize_config_dir

from analytics.policies.relearning import find_training
from analytics.report.published import (
    Implementation,
    PublishedRate,
    find_implementation_or_last_version,
    read_published_rates,
    read_studies,
)
from analytics.report.published.reproduction import (
    ComparedRate,
    MeasuredRate,
    Reproduction,
    build_measured_rate,
    count_results_in_seat,
    format_certainty_and_note,
    render_charts,
    render_markdown,
    render_page,
)
from analytics.statistics.tally import ResultCounts, Tally
from analytics.store import policy_store
from analytics.store.archive import ArchiveStore
from analytics.store.policy_cards import PolicyCard
from analytics.store.schema import MAX_PAIRS
from analytics.store.texts import format_count_with_noun
from quarto.errors import RequestError, suggest_valid_names
from runners.arena.code_fingerprints import project_version
from runners.arena.execution import execute_experiment
from runners.arena.experiment import Experiment, open_experiment
from runners.arena.progress import Progress
from runners.arena.request import RunRequest
from runners.arena.spec import AgentSpec, RunSpec
from runners.arena.storage import ArchiveOptions
from runners.config.agents import agent_from_label
from runners.config.requests import describe_rounding
from runners.config.schemas import MAX_SEED, check_range
from runners.config.yaml_options import CONF_FOLDER, load_rules
from runners.hosting.interruption import exit_code, stop_on_signal_then_interrupt_then_exit
from runners.learning.training.request import (
    TrainingRequest,
    check_training_and_create_archive,
    save_policy,
    training_request_from_config,
)
from runners.terminal import console
from runners.terminal.console import show_progress_bar_or_notes
from runners.terminal.files import write_file

TEXT, CODE = "text", "code"  # variants: our agents follow the study's text, or its program
POLICY_PREFIX = "published_"  # begins the policies' names, to distinguish them from the user's own
NARROW_COLUMNS = (
    "figure",
    "player",
    "opponent",
    "seat",
    "published",
    "text",
    "text_agrees",
    "code",
    "code_agrees",
    "note",
)


@dataclass(frozen=True)
class PairingOptions:
    """The options that all pairings of a reproduction share, such as the number of games and the archive."""

    games: int  # games of each pairing
    seed: int
    threads: int
    storage: ArchiveOptions
    command: str  # the command as typed, without the program's name


@dataclass(frozen=True)
class TrainingResult:
    """The policy that a training made, and the results of the games from which it was learned."""

    policy: str  # name
    learner: str  # label
    opponent: str  # label
    results: ResultCounts  # the learner's (losses, draws, wins) in the games from which it learned
    played: int  # games played by this command; 0 if the training was found


def train_if_missing(
    overrides: str, storage: ArchiveOptions, command: str, stop: threading.Event, progress: Progress | None
) -> TrainingResult | None:
    """Carry out a training, as ``qarena train`` does, unless the archive has its policy already; return its result.

    ``overrides`` are the overrides of the training, separated by spaces, and ``command`` is the command that asked for
    it. Returns None if the training was stopped. Raises whatever the training raises; an invalid request is refused
    before any game is played.
    """
    request = _build_training_request(overrides.split(), storage, command)
    archive = ArchiveStore.open(storage.root, create=True)
    card, played = _find_trained_card(request, archive), 0
    if card is None:
        check_training_and_create_archive(request)
        training_outcome = request.trainer.train(replace(request.context, stop=stop, progress=progress))
        if training_outcome.policy is None:
            return None
        card, played = save_policy(request, training_outcome, training_outcome.policy), training_outcome.played
    return _load_training_score(archive, card, played)


def _build_training_request(overrides: list[str], storage: ArchiveOptions, command: str) -> TrainingRequest:
    with initialize_config_dir(str(CONF_FOLDER), version_base="1.3"):
        overrides = [*overrides, f"archive.other_code={storage.other_code}"]  # because it affects the training's name
        config = compose("train", overrides=overrides, return_hydra_config=True)
        request = training_request_from_config(config, config.hydra.runtime.choices, command)
    return replace(request, context=replace(request.context, storage=storage), policy=POLICY_PREFIX + request.policy)


def _find_trained_card(request: TrainingRequest, archive: ArchiveStore) -> PolicyCard | None:
    """Return the card of the policy that an identical training with the current code has made, or None."""
    card = policy_store.find_by_name(archive, request.policy)
    is_same = (
        card is not None
        and card.learned["training"] == request.training_id
        and card.learned["parameters"] == dict(request.settings)
        and card.code["fingerprint"] == request.code["fingerprint"]
    )
    return card if is_same else None


def _load_training_score(archive: ArchiveStore, card: PolicyCard, played: int) -> TrainingResult:
    """Load the result of a training from the card and the learning curve of its policy.

    ``played`` is the number of games that this command played for the training.
    """
    (run_id,) = card.learned["run_ids"]
    learner = find_training(archive, run_id).label
    record = archive.find_run(run_id)
    other_labels = [label for label in record.labels if label != learner] if record else []
    losses, draws, wins = policy_store.read_table(archive, card, "curve").select("losses", "draws", "wins").sum().row(0)
    return TrainingResult(
        card.name, learner, other_labels[0] if other_labels else learner, (losses, draws, wins), played
    )


class PairingKey(NamedTuple):
    """The identity of a pairing: its rules and its two labels in alphabetical order."""

    rules: str
    first: str
    second: str


@dataclass(frozen=True)
class Side:
    """One of the two players behind a published win rate, as one of our agents.

    In the variant ``TEXT`` the agent follows the study's text; in the variant ``CODE`` it follows the study's program.
    """

    label: str  # without the policy that a training makes
    trainer: str  # overrides of ``qarena train`` that make the policy; "" if the player needs none


def find_sides_unless_same_as_text(figure: PublishedRate, variant: str) -> tuple[Side, Side] | None:
    """Return the player and the opponent of a published win rate, as ``variant`` (``TEXT`` or ``CODE``) describes them.

    Returns None if ``variant`` is ``CODE`` and both players are the same as in ``TEXT``.
    """
    implementations = [
        find_implementation_or_last_version(label, figure.version) for label in (figure.player, figure.opponent)
    ]
    if variant == CODE and not any(implementation and implementation.code for implementation in implementations):
        return None
    return _build_side(figure.player, implementations[0], variant), _build_side(
        figure.opponent, implementations[1], variant
    )


def _build_side(label: str, implementation: Implementation | None, variant: str) -> Side:
    if implementation is None:
        return Side(label, "")
    if variant == CODE and implementation.code:
        return Side(implementation.code, implementation.code_trainer)
    return Side(implementation.text, implementation.trainer)


def list_training_overrides(figures: Sequence[PublishedRate]) -> list[str]:
    """List the trainings that the figures need, each once: a text with its overrides of ``qarena train``."""
    sides_of_figures = (
        find_sides_unless_same_as_text(figure, variant) or () for figure in figures for variant in (TEXT, CODE)
    )
    return list(dict.fromkeys(side.trainer for sides in sides_of_figures for side in sides if side.trainer))


@dataclass
class Pairings:
    """The runs that a list of published win rates needs. There is one run, with its results, for each pairing."""

    settings: PairingOptions
    training_results: Mapping[str, TrainingResult]  # by the training's overrides
    experiments: dict[PairingKey, Experiment] = field(default_factory=dict)
    tallies: dict[PairingKey, Tally] = field(default_factory=dict)
    _agents_by_label: dict[str, AgentSpec] = field(default_factory=dict)  # a cache, because reading a yaml takes time

    def open_experiments(self, figures: Sequence[PublishedRate]) -> None:
        """Open the run of each pairing that the figures need. Raises ``RequestError`` as ``open_experiment`` does."""
        for figure in figures:
            for variant in (TEXT, CODE):
                agents = None if figure.is_training else self._find_agents(figure, variant)
                if agents:
                    key = _build_pairing_key(figure, agents)
                    if key not in self.experiments:
                        self.experiments[key] = open_experiment(self._build_request(figure, agents))

    @property
    def missing_game_count(self) -> int:
        """The number of games of these runs that are not in the archive yet."""
        return sum(experiment.count_missing_games(self.settings.games) for experiment in self.experiments.values())

    def play(self, stop: threading.Event, progress: Progress | None) -> int:
        """Play the games that the archive lacks, and return the number of games played.

        Setting ``stop`` ends playing early.
        """
        count, shared_progress = 0, _SharedProgress(progress) if progress else None
        if progress and self.missing_game_count:
            progress.start(self.missing_game_count)
        for key, experiment in self.experiments.items():
            if stop.is_set():
                break
            outcome = execute_experiment(experiment, f"qarena {self.settings.command}", stop, shared_progress)
            count += outcome.played
            for result in outcome.results:
                self.tallies[key] = result.tally
        return count

    def compare_figure(self, figure: PublishedRate) -> ComparedRate:
        """Return a published win rate together with the rates that our agents reached in its place.

        There are two rates of our agents, for the variants ``TEXT`` and ``CODE`` of the figure. A rate is None if no
        games of its variant were played.
        """
        return ComparedRate(
            figure,
            self._compute_rate_from_played_games(figure, TEXT),
            self._compute_rate_from_played_games(figure, CODE),
        )

    def _compute_rate_from_played_games(self, figure: PublishedRate, variant: str) -> MeasuredRate | None:
        if figure.is_training:
            return self._measure_training_figure(figure, variant)
        agents = self._find_agents(figure, variant)
        if agents is None:
            return None
        key = _build_pairing_key(figure, agents)
        tally = self.tallies.get(key)
        player, opponent = (agent.label for agent in agents)
        if tally is None or not tally.games:
            return None
        player_tally = tally if key.first == player else tally.with_agents_swapped
        return build_measured_rate(figure, player, opponent, count_results_in_seat(player_tally, figure.seat))

    def _measure_training_figure(self, figure: PublishedRate, variant: str) -> MeasuredRate | None:
        sides = find_sides_unless_same_as_text(figure, variant)
        result = self.training_results.get(sides[0].trainer) if sides else None
        return build_measured_rate(figure, result.learner, result.opponent, result.results) if result else None

    def _find_agents(self, figure: PublishedRate, variant: str) -> tuple[AgentSpec, AgentSpec] | None:
        """Return the agents that stand for the player and the opponent of ``figure`` in ``variant``.

        Returns None if ``find_sides_unless_same_as_text`` does, or if a training that one of the agents needs has not
        been carried out.
        """
        sides = find_sides_unless_same_as_text(figure, variant)
        if sides is None or any(side.trainer and side.trainer not in self.training_results for side in sides):
            return None
        return self._load_agent(sides[0]), self._load_agent(sides[1])

    def _load_agent(self, side: Side) -> AgentSpec:
        result = self.training_results.get(side.trainer)
        label = add_policy_to_label(side.label, result.policy if result else None)
        if label not in self._agents_by_label:
            self._agents_by_label[label] = agent_from_label(label, self.settings.storage.root)
        return self._agents_by_label[label]

    def _build_request(self, figure: PublishedRate, agents: tuple[AgentSpec, AgentSpec]) -> RunRequest:
        spec = RunSpec(load_rules(figure.rules), _sort_agents(agents), ((0, 1),), self.settings.seed, opening_plies=0)
        return RunRequest(spec, self.settings.games, self.settings.threads, self.settings.storage, progress=True)


class _SharedProgress:
    """The progress of several runs, shown as one count of games."""

    def __init__(self, progress: Progress) -> None:
        self.report_turns, self.advance = progress.report_turns, progress.advance

    def start(self, games: int) -> None:
        """Do nothing, because the shared count has already begun."""


def add_policy_to_label(label: str, policy: str | None) -> str:
    """Return a label with a policy, as in ``rl_encoded(policy=NAME)``, or the label unchanged if ``policy`` is None."""
    if policy is None:
        return label
    return f"{label[:-1]},policy={policy})" if label.endswith(")") else f"{label}(policy={policy})"


def _sort_agents(agents: tuple[AgentSpec, AgentSpec]) -> tuple[AgentSpec, AgentSpec]:
    """Sort two agents by label.

    Figures that name the same two agents in different orders thus share a run.
    """
    first, second = agents
    return (first, second) if first.label <= second.label else (second, first)


def _build_pairing_key(figure: PublishedRate, agents: tuple[AgentSpec, AgentSpec]) -> PairingKey:
    first, second = _sort_agents(agents)
    return PairingKey(figure.rules, first.label, second.label)


@dataclass(frozen=True)
class ReproduceRequest:
    """The studies to reproduce, how to play them, and the files to write."""

    studies: tuple[str, ...]
    settings: PairingOptions
    markdown: Path | None
    html: Path | None

    @property
    def figures(self) -> list[PublishedRate]:
        """The published figures of these studies."""
        return [figure for figure in read_published_rates() if figure.study in self.studies]


def build_request_with_even_games(
    study: str | None, settings: PairingOptions, markdown: Path | None, html: Path | None
) -> ReproduceRequest:
    """Build the request from the options of the command; an odd number of games is rounded up to an even one.

    ``study`` is a list such as ``A,C``, or None for all studies. Raises ``RequestError`` for the first invalid value,
    before any file is touched.
    """
    check_range("--games", settings.games, 1, 2 * MAX_PAIRS)
    check_range("--seed", settings.seed, 0, MAX_SEED)
    check_range("--threads", settings.threads, 1, 1024)
    studies = _parse_studies(study)
    games = settings.games + settings.games % 2
    for note in describe_rounding("--games", settings.games, games):
        console.print_note(note)
    return ReproduceRequest(studies, replace(settings, games=games), markdown, html)


def _parse_studies(text: str | None) -> tuple[str, ...]:
    """Return the letters of the studies in a text such as ``A,C``, or all letters if ``text`` is None.

    Raises ``RequestError`` for a study that does not exist.
    """
    valid_studies = [study.study for study in read_studies()]
    studies = valid_studies if text is None else [letter.strip().upper() for letter in text.split(",")]
    for study in studies:
        if study not in valid_studies:
            raise RequestError(f"study {study!r} does not exist{suggest_valid_names(study, valid_studies)}")
    return tuple(studies)


def reproduce(request: ReproduceRequest) -> int:
    """Carry out the missing trainings and games, print the comparison, write the files and return the exit code."""
    root = request.settings.storage.root
    with stop_on_signal_then_interrupt_then_exit() as stop:
        training_results = _run_trainings(request, stop)
        pairings = Pairings(request.settings, training_results)
        pairings.open_experiments(request.figures)
        with show_progress_bar_or_notes("playing", "games") as progress:
            count = pairings.play(stop, progress) + sum(result.played for result in training_results.values())
    reproduction = Reproduction(tuple(pairings.compare_figure(figure) for figure in request.figures))
    print_reproduction(reproduction)
    _write_files(request, reproduction)
    if stop.is_set():
        command = f"{console.find_program()} {request.settings.command}"
        console.print_note(f"interrupted; all games played so far are in the archive. To continue:\n  {command}")
        return exit_code()
    summary = (
        (f"{format_count_with_noun(count, 'game')} played, all of them in {root}")
        if count
        else f"Nothing to play: {root} has all games"
    )
    console.print_line(f"{summary}.")
    return 0


def _run_trainings(request: ReproduceRequest, stop: threading.Event) -> dict[str, TrainingResult]:
    """Carry out the trainings that the figures need and the archive lacks.

    Returns the results of all trainings that the figures need, keyed by overrides. If ``stop`` is set, some of the
    results are missing.
    """
    settings, results = request.settings, {}
    for training in list_training_overrides(request.figures):
        if stop.is_set():
            break
        overrides = f"{training} seed={settings.seed}"
        with show_progress_bar_or_notes("playing", "games") as progress:
            result = train_if_missing(overrides, settings.storage, f"qarena {settings.command}", stop, progress)
        if result:
            results[training] = result
    return results


def print_reproduction(reproduction: Reproduction) -> None:
    """Print a table for each study, then the notes and the summary."""
    for study, comparisons in reproduction.comparisons_by_study:
        all_columns = reproduction.build_columns(comparisons)
        columns = {name: column for name, column in all_columns.items() if name != "where"}
        title = f"Study {study.study}: {study.title} (games won, in %)"
        narrow = [column for name, column in columns.items() if name in NARROW_COLUMNS]
        console.print_tables(
            [console.build_escaped_table([*columns.values()], title)], [console.build_escaped_table(narrow, title)]
        )
    terminal = console.build_output_console()
    for number, note in enumerate(reproduction.notes, 1):
        terminal.print(
            f"{number:>2}  {format_certainty_and_note(note)}", markup=False, soft_wrap=not terminal.is_terminal
        )
    console.print_line(f"{reproduction.describe_agreement_counts()}.")


def _describe_command_and_options(settings: PairingOptions) -> str:
    """Return a sentence that names the command and the options that produced a report."""
    return (
        f"Made by `qarena {settings.command}` (quarto-arena {project_version()}): "
        f"{format_count_with_noun(settings.games, 'game')} of each "
        f"pairing, seed {settings.seed}."
    )


def _write_files(request: ReproduceRequest, reproduction: Reproduction) -> None:
    """Write the requested files. Raises ``FailureError`` if one cannot be written."""
    origin = _describe_command_and_options(request.settings)
    contents: dict[Path, str] = {}
    if request.markdown:
        contents[request.markdown] = render_markdown(reproduction, origin)
    if request.html:
        contents[request.html] = render_page(reproduction, origin, render_charts(reproduction))
    for path, content in contents.items():
        write_file(path, content.encode())
