"""Draw the strength of searches, with and without learned values, by the time of a turn.

Usage: python docs/strength_by_time.py ARCHIVE SPEEDS.csv RATINGS.csv OUTPUT.svg

The section "Under a search" of results_learning.md has the commands that play the games and write both tables.
"""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

import analytics
from analytics.report import style
from analytics.report.vega import Spec, inline_data, layer, nominal, quantitative

RIVALS = ("alpha_beta(depth=6)", "mcts(c=0.5,draw_reward=0.5,iterations=4000,safe_gifts=true,solver=true)")
DRAWS, WINS, ELO = "draws v oracle, %", "wins v the search alone, %", "Elo"
POWERS = [1, 10, 100, 1_000, 10_000, 100_000]  # microseconds
SHARES = """
    SELECT agent, opponent, 100 * sum(wins) / sum(games) AS wins, 100 * sum(draws) / sum(games) AS draws
    FROM results GROUP BY ALL ORDER BY ALL
"""


def family(agent: str) -> str:
    """Return the search and whether it has learned values, or the policy without a search."""
    name = agent.partition("(")[0]
    return f"{name}, learned values" if "value=" in agent else "no search" if name == "policy" else name


def points(archive: str, speeds: Path, ratings: Path) -> pl.DataFrame:
    """Return a row for each picture and player: ``picture``, ``agent``, ``family``, ``us`` a turn and ``strength``."""
    shares = analytics.open_archive(archive).sql(SHARES)
    rivals = [rival for rival in RIVALS if rival in shares["opponent"]]
    own = pl.col("agent").str.split("(").list.first() == pl.col("opponent").str.split("(").list.first()
    elo = pl.read_csv(ratings).filter(pl.col("elo").is_finite())
    strengths = [
        shares.filter(opponent="oracle").select("agent", picture=pl.lit(DRAWS), strength="draws"),
        shares.filter(pl.col("agent").str.contains("value=") & own & pl.col("opponent").is_in(rivals)).select(
            "agent", picture=pl.lit(WINS), strength="wins"
        ),
        elo.select("agent", picture=pl.lit(ELO), strength="elo"),
    ]
    times = pl.read_csv(speeds).group_by("agent").agg(us=1e6 / pl.col("turns_a_second").max())
    found = pl.concat(strengths, how="vertical_relaxed").join(times, on="agent")
    return found.with_columns(family=pl.col("agent").map_elements(family, pl.String())).sort("picture", "family", "us")


def panel(rows: pl.DataFrame, name: str, families: list[str]) -> Spec:
    """Draw the strengths of one picture, a line for each family."""
    colours = {"domain": families, "range": [light for light, _ in style.AGENT_COLOURS]}
    return {
        "width": style.WIDTH,
        "height": style.HEIGHT,
        "data": inline_data(rows.filter(picture=name)),
        "encoding": {
            "x": quantitative(
                "us",
                title="microseconds a turn",
                scale={"type": "log", "domain": [POWERS[0], POWERS[-1]]},
                axis={"values": POWERS, "format": ",d", "grid": False},
            ),
            "y": quantitative("strength", title=name, scale={} if name == ELO else {"domain": [0, 100]}),
            "color": nominal("family", sort=families, scale=colours, legend={"columns": 2, "symbolOpacity": 1}),
        },
        "layer": [layer("line", {}, strokeWidth=2), layer("point", {}, filled=True, size=45, opacity=1)],
    }


def main(archive: str, speeds: str, ratings: str, output: str) -> None:
    """Draw the three pictures below one another."""
    rows = points(archive, Path(speeds), Path(ratings))
    families = rows["family"].unique(maintain_order=True).to_list()
    picture = {"vconcat": [panel(rows, name, families) for name in (DRAWS, WINS, ELO)]}
    Path(output).write_text(
        style.render_svg(style.style_chart(picture, "Strength by the time of a turn")), encoding="utf-8"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
