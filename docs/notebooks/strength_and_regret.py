"""Strength is not perfection: games are played here, rated, and every decision of them is judged by the solver.

Open it with `marimo edit docs/notebooks/strength_and_regret.py`, or run it with `python`.
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium")


@app.cell
def _():
    import subprocess
    import sys
    import tempfile
    from pathlib import Path

    import altair as alt
    import marimo as mo

    import analytics
    from analytics.exact.game_review import review_game
    from analytics.questions.ratings import compute_ratings
    from quarto.notation import format_game
    from quarto.rules import CLASSIC

    return CLASSIC, Path, alt, analytics, format_game, mo, compute_ratings, review_game, subprocess, sys, tempfile


@app.cell
def _(mo):
    mo.md("""
    # Strength and regret

    A rating says how an agent does against others. The *regret* of a decision says what it gave up of the exact
    value of the position, in half-points, whoever the opponent is. Four agents play; then both are compared.
    """)


@app.cell
def _(Path, subprocess, sys, tempfile):
    folder = Path(tempfile.mkdtemp()) / "archive"
    qarena = str(Path(sys.executable).with_name("qarena"))
    agents = "agents=[random,dumb,semi_random,rule_based]"
    tournament = [
        qarena,
        "run",
        agents,
        "games=400",
        "progress=false",
        f"--archive={folder}",
        f"hydra.run.dir={folder}.log",
    ]
    subprocess.run(tournament, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([qarena, "annotate", "--archive", str(folder)], check=True, stdout=subprocess.DEVNULL)
    return (folder,)


@app.cell
def _(analytics, folder):
    archive = analytics.open_archive(str(folder))
    return (archive,)


@app.cell
def _(archive, compute_ratings):
    strength = compute_ratings(archive, anchor="random").to_frame()
    strength
    return (strength,)


@app.cell
def _(archive):
    # Mean regret and share of blunders of each agent, gifts and placements apart.
    regret = archive.sql(
        "SELECT agent, kind, count(*) AS decisions, avg(regret) AS regret, avg((regret > 0)::int) AS blunders "
        "FROM decisions GROUP BY ALL ORDER BY ALL"
    )
    regret
    return (regret,)


@app.cell
def _(alt, regret, strength):
    # The strongest agent is not always the one with the least regret.
    joined = regret.join(strength.select("agent", "elo"), on="agent")
    chart = alt.Chart(joined).mark_point(size=80).encode(x="elo:Q", y="regret:Q", color="agent:N", shape="kind:N")
    chart
    return (joined,)


@app.cell
def _(archive):
    # Where do games turn? Regret by ply.
    by_ply = archive.sql("SELECT ply, kind, avg(regret) AS regret FROM decisions GROUP BY ALL ORDER BY ALL")
    by_ply
    return (by_ply,)


@app.cell
def _(CLASSIC, archive, format_game, review_game):
    # One game, decision by decision.
    longest = archive.sql("SELECT run_id, game_id FROM games ORDER BY plies DESC, run_id, game_id LIMIT 1")
    plies = (
        archive.scan("plies")
        .join(longest.lazy(), on=["run_id", "game_id"])
        .sort("ply")
        .select("piece", "cell")
        .collect()
        .rows()
    )
    review = review_game(CLASSIC, plies)
    print(format_game(plies))
    for index in review.mistakes:
        print(review.decisions[index], "better:", review.better[index])
    return (review,)


if __name__ == "__main__":
    app.run()
