-- Views over other views. docs/sql.md has an example of each.

-- Games by seat, and games by pair.

CREATE VIEW seats AS
    SELECT run_id, game_id, pair_id, pairing, 0 AS seat, agent_0 AS agent, agent_1 AS opponent,
           CASE winner WHEN 0 THEN 1e0 WHEN -1 THEN 0.5e0 ELSE 0e0 END AS score, plies, opening, ending,
           rules, opening_number, game_number
    FROM games
    UNION ALL
    SELECT run_id, game_id, pair_id, pairing, 1, agent_1, agent_0,
           CASE winner WHEN 1 THEN 1e0 WHEN -1 THEN 0.5e0 ELSE 0e0 END, plies, opening, ending,
           rules, opening_number, game_number
    FROM games;

CREATE VIEW pairs AS
    SELECT run_id, pair_id, pairing,
           any_value(CASE game_id & 1 WHEN 0 THEN agent_0 ELSE agent_1 END) AS first,
           any_value(CASE game_id & 1 WHEN 0 THEN agent_1 ELSE agent_0 END) AS second,
           any_value(opening) AS opening,
           max(CASE winner WHEN 0 THEN 1e0 WHEN -1 THEN 0.5e0 ELSE 0e0 END) FILTER (game_id & 1 = 0) AS score_0,
           max(CASE winner WHEN 1 THEN 1e0 WHEN -1 THEN 0.5e0 ELSE 0e0 END) FILTER (game_id & 1 = 1) AS score_1,
           any_value(rules) AS rules, any_value(opening_number) AS opening_number
    FROM games
    GROUP BY run_id, pair_id, pairing;

-- The pairings of all runs. Rows of derived tables have the numbers of pairings, so the agents are found without games.

CREATE TABLE _pairings (
    run_id VARCHAR, pairing INTEGER, first_agent VARCHAR, second_agent VARCHAR, mover_chooses BOOLEAN, rules VARCHAR
);

CREATE MACRO _keyed() AS false;

CREATE OR REPLACE VIEW decisions AS
    SELECT run_id, game_id, ply, CASE kind WHEN 0 THEN 'gift' ELSE 'placement' END AS kind, seat,
           CASE WHEN seat = game_id & 1 THEN first_agent ELSE second_agent END AS agent,
           value_before, value_after, value_before - value_after AS regret,
           legal AS choices, nullif(saving, -1) AS saving, _pairings.rules,
           CASE WHEN _keyed() THEN occupied::INTEGER ELSE error('occupied was not made')::INTEGER END AS occupied,
           CASE WHEN _keyed() THEN board ELSE error('board was not made')::BIGINT END AS board
    FROM _decisions JOIN _pairings USING (run_id) LEFT JOIN _keys USING (run_id, game_id, ply)
    WHERE pairing = game_id >> 32;

CREATE OR REPLACE VIEW evaluations AS
    SELECT run_id, game_id, ply, seat, CASE WHEN seat = game_id & 1 THEN first_agent ELSE second_agent END AS agent,
           CASE WHEN value <> -2147483648 THEN value / 1e6 END AS value, nullif(visits, -1) AS visits,
           microseconds / 1e6 AS seconds, _pairings.rules
    FROM _evaluations JOIN _pairings USING (run_id)
    WHERE pairing = game_id >> 32;

-- Results by first ply. Games that no file of first_plies counts are counted from plies.

CREATE OR REPLACE VIEW first_plies AS
    SELECT run_id, pairing,
           CASE second WHEN 0 THEN first_agent ELSE second_agent END AS agent,
           CASE second WHEN 0 THEN second_agent ELSE first_agent END AS opponent,
           piece, cell, games, wins, draws, games - wins - draws AS losses, rules
    FROM (
        SELECT run_id, pairing, second, piece, cell,
               sum(games)::BIGINT AS games, sum(wins)::BIGINT AS wins, sum(draws)::BIGINT AS draws
        FROM (
            FROM _first_plies
            UNION ALL
            SELECT run_id, pairing, (1 - game_id % 2)::INTEGER, piece, cell, count(*),
                   count(*) FILTER (outcome = 1), count(*) FILTER (outcome = 0)
            FROM _uncounted
            WHERE ply = 0
            GROUP BY ALL
        )
        GROUP BY ALL
    ) JOIN _pairings USING (run_id, pairing);

-- Openings in the order of play, up to symmetry: a row for each game of at least k plies.

CREATE MACRO ordered_openings(k) AS TABLE
    SELECT run_id, rules, game_id, pairing, outcome,
           opening_text(pieces, cells, k) AS opening,
           pieces >> (32 - 4 * k) << (32 - 4 * k) AS pieces,
           cells >> (32 - 4 * k) << (32 - 4 * k) AS cells
    FROM _orders
    WHERE ordered >= CASE WHEN k BETWEEN 1 AND 8 THEN k ELSE error('ordered_openings(k): k is 1 to 8') END;
