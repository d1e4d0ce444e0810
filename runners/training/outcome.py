"""The outcome of a training: the policy that is stored, what was learned, and how to play by it."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from agents.learning.policy import GENOME, Policy
from analytics.policies import policy_store
from analytics.policies.policy_store import PolicyOrigin
from analytics.results.columns import percent
from analytics.store import policy_cards
from analytics.store.archive import Archive
from analytics.store.policy_cards import PolicyCard
from runners.arena.agent_policies import readers_of
from runners.hydra_app.application import Judgement
from runners.terminal import console
from runners.training.config import TrainingRequest
from runners.training.derive import code_of
from runners.training.trainer import Trained


def keep(request: TrainingRequest, trained: Trained, policy: Policy) -> PolicyCard:
    """Store the policy with its learning curve, and a picture of the curve."""
    context = request.context
    learned = {
        "training": request.training,
        "trainer": context.name,
        "parameters": dict(request.settings),
        "seed": context.seed,
        "games": trained.games,
        "run_ids": list(trained.run_ids),
        "command": context.command,
        **trained.origin,
    }
    tables = {"curve": trained.curve, **trained.tables}
    how = trained.origin.get("derivation")
    code = code_of(how["parameters"]) if how else request.code  # the code that can make the policy again
    origin = PolicyOrigin(request.policy, context.rules, code, learned, tables, _pictures(request, trained.curve))
    return policy_store.save(Archive.open(context.storage.root), policy, origin)


def _pictures(request: TrainingRequest, curve: pl.DataFrame) -> dict[str, bytes]:
    """The learning curve as a picture."""
    from analytics.report import style

    return {"curve": style.curve_svg(curve, f"How {request.context.name} learned", _subtitle(request))}


def _subtitle(request: TrainingRequest) -> list[str]:
    """Two lines: the opponents and the conditions of the training, and the parameters that were changed."""
    settings, context = request.settings, request.context
    against = settings.get("opponents", settings.get("opponent"))
    if isinstance(against, Sequence) and not isinstance(against, str):
        against = ", ".join(map(str, against))
    how = [f"{context.rules.name} rules", f"seed {context.seed}"]
    seat = f"learner in seat {settings.get('learner_seat', 0)}"
    how += {"swapped": ["seats swapped"], "fixed": [seat]}.get(str(settings.get("seats")), [])
    changed = request.changed
    return [
        f"against {against}, {', '.join(how)}" if against else ", ".join(how),
        *([", ".join(f"{key} {value}" for key, value in changed.items())] if changed else []),
    ]


def _full(curve: pl.DataFrame) -> pl.DataFrame:
    """The rows of a curve that have as many games as the first: the last may have too few to be informative."""
    return curve.filter(pl.col("games") == pl.first("games"))


def score(curve: pl.DataFrame) -> float | None:
    """The last value of a curve: the learner's win rate, the fitness of the best, or the measured strength."""
    if curve.is_empty():
        return None
    if "win_rate" in curve.columns:
        return float(_full(curve)["win_rate"][-1])
    return next((float(curve[name][-1]) for name in ("best", "strength") if name in curve.columns), None)


def judged(curve: pl.DataFrame) -> Judgement | None:
    """The value that judges a training: the last one of its curve."""
    last = score(curve)
    name = next((each for each in ("win_rate", "strength") if each in curve.columns), "fitness")
    return None if last is None else Judgement(name, last)


def row(card: PolicyCard, trained: Trained) -> dict[str, str]:
    """The row of a job in the table of its sweep."""
    last = score(trained.curve)
    names = {"win_rate": "last win rate", "strength": "mean score"}
    what = next((name for column, name in names.items() if column in trained.curve.columns), "fitness")
    return {"policy": card.name, "games": f"{trained.games:,}", what: "·" if last is None else percent(last)}


def show_interrupted(request: TrainingRequest, trained: Trained) -> None:
    """Print how far an interrupted training came."""
    console.print_line(
        f"Learned from {trained.games:,} games so far; {trained.played:,} games were played now. They are in "
        f"{request.context.storage.root}; the policy is stored once all games are played."
    )


def show(request: TrainingRequest, trained: Trained, card: PolicyCard) -> None:
    """Print what was learned, from which games, where the policy is and how to play by it."""
    folder = policy_cards.folder_of(Archive(request.context.storage.root), card.policy_id)
    genes = (f"{gene} {value:g}" for gene, value in card.parameters.items())
    for line in (
        _what_was_learned(request, trained),
        _what_it_took(request, trained),
        f"Policy '{card.name}' ({card.policy_id}) is in {folder}: {', '.join(map(card.stored_name, card.files))}.",
        *([f"Genes: {', '.join(genes)}."] if card.kind == GENOME else []),
        "Play by it:",
        f"  {_play_command(request, card)}",
    ):
        console.print_line(line)


def _what_was_learned(request: TrainingRequest, trained: Trained) -> str:
    curve = trained.curve
    learned = f"{request.context.name} learned from {trained.games:,} games"
    first, last = score(curve.head(1)), score(curve)
    if first is None or last is None:
        return f"{learned}."
    if "strength" in curve.columns:
        return f"{learned}: its mean score against the same opponents went from {first:.3f} to {last:.3f}."
    if "win_rate" not in curve.columns:
        return f"{learned}: the best of the first generation had fitness {first:.3f}, the best of the last {last:.3f}."
    begins, games = _full(curve).select("first_game", "games").row(-1)
    later = f", {percent(last)} % of games {begins + 1:,} to {begins + games:,}" if begins else ""
    return f"{learned}: it won {percent(first)} % of the first {games:,}{later}."


def _what_it_took(request: TrainingRequest, trained: Trained) -> str:
    runs = f"run {trained.run_ids[0]}" if len(trained.run_ids) == 1 else f"{len(trained.run_ids)} runs"
    if trained.played == 0:
        return f"Nothing to play: {request.context.storage.root} had all games; learned from {runs}."
    took = console.speed(trained.played, trained.seconds)
    return f"{took}; learned from {runs} in {request.context.storage.root}."


def _play_command(request: TrainingRequest, card: PolicyCard) -> str:
    """A command that plays by a policy."""
    players = readers_of(card.kind)
    player = request.context.name if request.context.name in players or not players else players[0]
    root = request.context.storage.root
    return f"{console.program()} run '{player}(policy={card.name})' random{console.archive_option(root)}"
