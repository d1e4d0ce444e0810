-- How many pairs gave their first agent 0, 1/2, 1, 3/2 or 2 points? One row a pairing of a run: the five counts that
-- `qarena sprt --counts` takes. Pairs with only one game in the archive are left out. Reads: games.
SELECT
    run_id,
    pairing,
    first,
    second,
    count(*) FILTER (score_0 + score_1 = 0) AS ll,
    count(*) FILTER (score_0 + score_1 = 0.5) AS ld,
    count(*) FILTER (score_0 + score_1 = 1) AS dd,
    count(*) FILTER (score_0 + score_1 = 1.5) AS wd,
    count(*) FILTER (score_0 + score_1 = 2) AS ww
FROM pairs
WHERE score_0 + score_1 IS NOT NULL
GROUP BY run_id, pairing, first, second
ORDER BY run_id, pairing
