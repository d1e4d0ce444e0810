"""First questions to the sample archive: winners, first cells, and lengths of games.

Open it with `marimo edit docs/notebooks/first_questions.py`, or run it with `python`.
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium")


@app.cell
def _():
    import altair as alt
    import marimo as mo

    import analytics
    from analytics.questions.cookbook import read_query

    return alt, analytics, mo, read_query


@app.cell
def _(mo):
    mo.md("""
    # First questions

    The archive `data/sample` holds real games between four quick agents. Every cell below is a question to it;
    change one and see what follows. For an archive of your own, name its folder in the next cell.
    """)


@app.cell
def _(analytics, mo):
    folder = mo.notebook_location().parent.parent / "data" / "sample"
    archive = analytics.open_archive(str(folder))
    return (archive,)


@app.cell
def _(archive):
    # Who wins? Pairs are two games with one opening and the seats swapped.
    pairings = archive.sql(
        "SELECT agent_0, agent_1, count(*) AS games, avg((winner = 0)::int) AS seat_0_wins, "
        "avg((winner = -1)::int) AS draws FROM games GROUP BY ALL ORDER BY ALL"
    )
    pairings
    return (pairings,)


@app.cell
def _(archive, read_query):
    # How did pairs end? From these five counts follow all intervals: see the page on statistics.
    pairs = archive.sql(read_query("pentanomial"))
    pairs
    return (pairs,)


@app.cell
def _(alt, archive):
    # How long do games last?
    lengths = archive.sql("SELECT plies, ending, count(*) AS games FROM games GROUP BY ALL ORDER BY ALL")
    chart = alt.Chart(lengths).mark_bar().encode(x="plies:O", y="games:Q", color="ending:N")
    chart
    return (lengths,)


@app.cell
def _(archive):
    # The same in Polars: each view is a lazy frame.
    corners = [0, 3, 12, 15]
    first = archive.scan("plies").filter(ply=0).group_by("cell").len().sort("cell").collect()
    first.with_columns(corner=first["cell"].is_in(corners))
    return (first,)


if __name__ == "__main__":
    app.run()
