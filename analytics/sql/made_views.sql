-- Views that are made from other views. docs/sql.md has an example of each.

-- Games by seat, and games by pair.

CREATE VIEW seats AS
    SELECT run_id, game_id, pair_id, pairing, 0 AS seat, agent_0 AS agent, agent_1 AS opponent,
           CASE winner WHEN 0 THEN 1e0 WHEN -1 THEN 0.5e0 ELSE 0e0 END AS score, plies, opening, ending
    FROM games
    UNION ALL
    SELECT run_id, game_id, pair_id, pairing, 1, agent_1, agent_0,
           CASE winner WHEN 1 THEN 1e0 WHEN -1 THEN 0.5e0 ELSE 0e0 END, plies, opening, ending
    FROM games;

CREATE VIEW pairs AS
    SELECT run_id, pair_id, pairing,
           any_value(CASE game_id & 1 WHEN 0 THEN agent_0 ELSE agent_1 END) AS first,
           any_value(CASE game_id & 1 WHEN 0 THEN agent_1 ELSE agent_0 END) AS second,
           any_value(opening) AS opening,
           max(CASE winner WHEN 0 THEN 1e0 WHEN -1 THEN 0.5e0 ELSE 0e0 END) FILTER (game_id & 1 = 0) AS score_0,
           max(CASE winner WHEN 1 THEN 1e0 WHEN -1 THEN 0.5e0 ELSE 0e0 END) FILTER (game_id & 1 = 1) AS score_1
    FROM games
    GROUP BY run_id, pair_id, pairing;

-- Openings in the order of play, up to symmetry: a row for each game of at least k plies.

CREATE MACRO ordered_openings(k) AS TABLE
    SELECT run_id, game_id, pairing, outcome,
           opening_text(pieces, cells, k) AS opening,
           pieces >> (32 - 4 * k) << (32 - 4 * k) AS pieces,
           cells >> (32 - 4 * k) << (32 - 4 * k) AS cells
    FROM _orders
    WHERE ordered >= CASE WHEN k BETWEEN 1 AND 8 THEN k ELSE error('ordered_openings(k): k is 1 to 8') END;
