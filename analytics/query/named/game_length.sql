-- How long are games, and who wins them? One row a run, length in plies and ending, with its share of the run's games.
-- Seat 1 places plies 0, 2, 4, ... so it wins games of odd length. Reads: games.
SELECT
    run_id,
    plies,
    ending,
    count(*) AS games,
    count(*) / sum(count(*)) OVER (PARTITION BY run_id) AS share,
    avg((winner = 0)::INTEGER) AS won_by_seat_0,
    avg((winner = 1)::INTEGER) AS won_by_seat_1
FROM games
GROUP BY run_id, plies, ending
ORDER BY run_id, plies, ending
