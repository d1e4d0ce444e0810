"""Tables of ratings, head-to-head results and tests of strength in the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from analytics.ratings.head_to_head import HeadToHead, by_seats
from analytics.ratings.ratings import Rating, Ratings
from analytics.results.pairings import PairingResult, crosstable
from analytics.statistics.intervals import Estimate
from analytics.statistics.sprt import Hypotheses, Strength, checked_counts, decision, log_likelihood_ratio, strength
from quarto.errors import RequestError, nearest
from runners.terminal import console
from runners.terminal.console import Column, interval, percent

# Ratings.


def show_ratings(
    met: HeadToHead, found: Ratings, anchor: str | None, anchor_elo: float, wide: bool | None = None
) -> None:
    """Print the ratings, the probability that an agent is above another, the seat's value, and what stays unknown."""
    where = f"{anchor} has {anchor_elo:g}" if anchor else f"their mean is {anchor_elo:g}"
    rows = found.ratings
    games = sum(each.games for each in rows) // 2  # those of an agent against itself are not among them
    title = f"Ratings in Elo ({met.rules} rules, {games:,} games; {where})"
    places = console.ranked([each.agent for each in rows])
    elos = [
        Column("Elo", [_elo(each.elo.mean) for each in rows]),
        Column("95 % interval", [_elo_interval(each.elo) for each in rows], spare=1),
        Column("games", [f"{each.games:,}" for each in rows], spare=2),
        *([Column("group", [str(each.group + 1) for each in rows])] if found.groups > 1 else []),
    ]
    sure = [
        Column(f"> {other.agent}", [_sure(found.superiority[i, k], i == k) for i in range(len(rows))], spare=k)
        for k, other in enumerate(rows)
    ]
    by_place = [column._replace(heading=f"> {place}") for place, column in enumerate(sure, 1)]
    console.show(
        [console.tabulated(places + elos + sure, f"{title}; > probability of being above, in %")],
        *(
            [
                console.tabulated(places + elos, title),
                console.tabulated(places + others, "Probability of being above the other, in %"),
            ]
            for others in (sure, by_place)
        ),
        wide=wide,
    )
    for line in [_common(found), *_open_questions(found), *unrated(found)]:
        console.print_line(line)


def unrated(found: Ratings) -> list[str]:
    """Sentences on agents that the table does not list."""
    lines = [f"Not rated, forfeited every game: {agent} ({games:,} games)." for agent, games in found.forfeited]
    if found.without_contest:
        lines.append(f"Not rated, met only these: {', '.join(found.without_contest)}.")
    return lines


def _elo(value: float) -> str:
    if math.isnan(value):
        return "?"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"  # noqa: RUF001  (a minus sign)
    return f"{value:.1f}".replace("-", "−") if round(value, 1) else "0.0"  # noqa: RUF001


def _elo_interval(estimate: Estimate) -> str:
    if not math.isfinite(estimate.mean):
        return "no bound"
    if math.isnan(estimate.low):
        return "not sampled"
    return f"{_elo(estimate.low)} to {_elo(estimate.high)}"


def _sure(share: float, itself: bool) -> str:
    return "·" if itself or math.isnan(share) else f"{100 * share:.1f}"


def _common(found: Ratings) -> str:
    if math.isnan(found.seat.mean):
        return "The games do not determine the value of seat 0: no agent both won and lost points."
    sampled = "not sampled" if math.isnan(found.draws.low) else interval(found.draws)
    draws = f"of games between equals {percent(found.draws.mean)} % are drawn ({sampled})"
    return f"Seat 0 is worth {_elo(found.seat.mean)} Elo ({_elo_interval(found.seat)}); {draws}."


def _open_questions(found: Ratings) -> list[str]:
    """Sentences on what the games do not determine."""
    lines = []
    if found.groups > 1:
        lines.append(
            f"{found.groups} groups of agents have no games between them: compare ratings within a group only."
        )
    for text, agents in (
        ("won every point against the agents below it: its rating has no upper bound", _at(found.ratings, math.inf)),
        ("lost every point to the agents above it: its rating has no lower bound", _at(found.ratings, -math.inf)),
        (
            "cannot be rated: no chain of won points connects it with the others",
            [r for r in found.ratings if math.isnan(r.elo.mean) and r.agent not in found.by_seat],
        ),
    ):
        lines += [f"{rating.agent} {text}." for rating in agents]
    if found.by_seat:
        seat, level = int(found.seat.mean < 0), ", ".join(found.by_seat)
        lines.append(f"Seat {seat} won every game between {level}: these games do not show which of them is stronger.")
    return lines


def _at(rows: Iterable[Rating], value: float) -> list[Rating]:
    return [rating for rating in rows if rating.elo.mean == value]


# Crosstables.


def show_head_to_head(met: HeadToHead, by_seat: bool, wide: bool | None = None) -> None:
    """Print the crosstable of a tournament, then the results of every two agents that played each other."""
    others = [result for result in met.results if result.first != result.second]
    if len(others) > 1 and not by_seat:
        console.show_crosstable(crosstable(others, met.shared), wide=wide)
    title = f"Head to head ({met.rules} rules; the first agent's view, in %)"
    if by_seat:
        found = by_seats(met.results, met.shared)
        seats = Column("its seat", [str(seat) for seat, _ in found])
        columns = _columns([result for _, result in found])
        console.show([console.tabulated([columns[0], seats, *columns[1:]], title)], wide=wide)
        return
    console.show([console.tabulated([*_columns(met.results), *console.forfeit_columns(met.results)], title)], wide=wide)


def _columns(found: Sequence[PairingResult]) -> list[Column]:
    score = [
        Column("score", [percent(result.score.mean) for result in found]),
        Column("95 % interval", [interval(result.score) for result in found], spare=1),
    ]
    first, second, games, *rest = console.pairing_columns(found)
    return [first, second, games, *score, *rest]


# Tests of strength.

HYPOTHESES = Hypotheses.__struct_fields__


def show_counts(text: str, settings: Sequence[str]) -> None:
    """Print the test of given counts. Raises ``RequestError`` for anything but counts and hypotheses."""
    try:
        counts = checked_counts([int(count) for count in text.split(",")])
    except ValueError:
        raise RequestError(
            f"--counts {text}: five whole numbers are needed: the pairs with results LL,LD,DD,WD,WW"
        ) from None
    hypotheses = Hypotheses(**dict(map(_hypothesis, settings)))
    for line in described(counts, hypotheses, strength(counts)):
        console.print_line(line)


def _hypothesis(setting: str) -> tuple[str, float]:
    key, _, value = setting.partition("=")
    if key not in HYPOTHESES:
        raise RequestError(f"{setting!r} cannot be used with --counts{nearest(key, HYPOTHESES)}")
    try:
        return key, float(value)
    except ValueError:
        raise RequestError(f"{key}: {value!r} is not a number") from None


def described(counts: Sequence[int], hypotheses: Hypotheses, found: Strength) -> list[str]:
    """Counts, the ratio with its bounds, and estimates, as lines of text."""
    ratio, (lower, upper) = log_likelihood_ratio(counts, hypotheses), hypotheses.bounds
    accepted = decision(counts, hypotheses)
    verdict = f"{accepted} is accepted" if accepted else "undecided"
    named = zip(("LL", "LD", "DD", "WD", "WW"), counts, strict=True)
    tested = ", ".join(f"{name}={getattr(hypotheses, name):g}" for name in HYPOTHESES)
    return [
        f"Pairs  {found.pairs:,}: " + ", ".join(f"{name} {count:,}" for name, count in named),
        f"LLR    {ratio:.4f}, bounds {lower:.4f} and {upper:.4f}: {verdict} ({tested})",
        f"nElo   {with_half_width(found.normalised_elo)}",
        f"Elo    {with_half_width(found.elo)}",
        f"LOS    {found.superiority:.5f}",
    ]


def with_half_width(estimate: Estimate, digits: int = 4) -> str:
    """A value ± half the width of its interval."""
    mean = round(estimate.mean, digits) + 0.0  # no minus sign before 0
    reach = (estimate.high - estimate.low) / 2
    return " ± ".join(f"{number:.{digits}f}".replace("inf", "∞") for number in (mean, reach) if not math.isnan(number))
