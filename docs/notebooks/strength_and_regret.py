"""Strength is not perfection: games are played here, rated, and every decision of them is judged by the solver.

Open it with `marimo edit docs/notebooks/strength_and_regret.py`, or run it with `python`.
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium")


@app.cell
def _():
    import tempfile
    from pathlib import Path

    import altair as alt
    import marimo as mo

    import analytics
    import runners
    from quarto import solve

    return Path, alt, analytics, mo, runners, solve, tempfile


@app.cell
def _(mo):
    mo.md("""
    # Strength and regret

    A rating says how an agent does against others. The *regret* of a decision says what it gave up of the exact
    value of the position, in half-points, whoever the opponent is. Four agents play; then both are compared.
    """)


@app.cell
def _(Path, runners, tempfile):
    # Every two of four agents play, then each decision is judged.
    folder = Path(tempfile.mkdtemp()) / "archive"
    tournament = runners.run("random", "dumb", "semi_random", "rule_based", games=400, progress=False, archive=folder)
    judged = runners.annotate(folder)
    print(tournament)
    tournament
    return folder, judged


@app.cell
def _(analytics, folder, judged):
    archive = analytics.open_archive(folder)
    judged
    return (archive,)


@app.cell
def _(archive):
    ratings = archive.ratings(anchor="random")
    print(ratings)
    ratings
    return (ratings,)


@app.cell
def _(judged, ratings):
    # Mean regret of each agent, gifts and placements apart; the rows by ply have a ply.
    strength, regret = ratings.frame, judged.frame.filter(judged.frame["ply"].is_null())
    print(regret.select("agent", "kind", "decisions", "regret"))
    regret
    return regret, strength


@app.cell
def _(alt, regret, strength):
    # The strongest agent is not always the one with the least regret.
    joined = regret.join(strength.select("agent", "elo"), on="agent")
    chart = alt.Chart(joined).mark_point(size=80).encode(x="elo:Q", y="regret:Q", color="agent:N", shape="kind:N")
    chart
    return (joined,)


@app.cell
def _(judged):
    # Where do games turn? Regret by ply.
    by_ply = judged.frame.drop_nulls("ply").select("agent", "ply", "kind", "regret")
    by_ply
    return (by_ply,)


@app.cell
def _(archive):
    # One of the longest games, decision by decision: its boards, its exact values, and what each decision gave up.
    longest = archive.sql("SELECT run_id, game_id FROM games ORDER BY plies DESC, run_id, game_id LIMIT 1")
    game = archive.game(*longest.row(0))
    print(game)
    game
    return (game,)


@app.cell
def _(game, solve):
    # What would have kept the value? The solver answers for the position before each mistake. Cells and pieces are
    # numbers: cell 4 * row + column, so 10 is c3; -1 is none.
    mistakes = game.frame.filter(game.frame["regret"] > 0).sort("ply")
    for ply, kind, choice, position in mistakes.select("ply", "kind", "choice", "position").iter_rows():
        solution = solve(position)
        best = [(turn.cell, turn.gift) for turn in solution.turns if turn.value == solution.value]
        print(f"ply {ply}: {kind} {choice}; turns (cell, gift) that keep the value of {position}: {best}")
    return (mistakes,)


if __name__ == "__main__":
    app.run()
