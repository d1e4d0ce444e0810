-- Questions of strangers, one a line, which must all be refused: what they read or do is no part of the vocabulary.
SELECT b.name, b.setting FROM (WITH pg_settings AS (SELECT 1 q) FROM pg_settings) a, pg_settings b
SELECT b.* FROM (WITH x AS (WITH pg_settings AS (SELECT 1 q) FROM pg_settings) FROM x) a, pg_settings b
WITH a AS (WITH duckdb_views AS (SELECT 1 q) FROM duckdb_views), b AS (FROM duckdb_views) FROM b
WITH RECURSIVE pg_settings AS (SELECT 1 q UNION ALL SELECT q + 1 FROM pg_settings WHERE q < 3) FROM pg_settings
WITH pg_settings AS MATERIALIZED (FROM pg_settings) FROM pg_settings
SELECT (WITH sqlite_master AS (SELECT 1 q) SELECT q FROM sqlite_master), (SELECT max(sql) FROM sqlite_master)
FROM games g, LATERAL (FROM pg_settings) s
FROM games g LEFT JOIN LATERAL (SELECT * FROM duckdb_settings() WHERE true) s ON true
FROM duckdb_settings()
FROM "duckdb_settings"()
FROM DUCKDB_SETTINGS()
FROM system.main.duckdb_settings()
FROM main.duckdb_settings()
FROM pg_settings
FROM PG_SETTINGS
FROM "Pg_Settings"
FROM pg_catalog.pg_settings
FROM system.pg_catalog.pg_settings
FROM duckdb_views
FROM duckdb_views()
FROM duckdb_columns
FROM duckdb_columns()
FROM duckdb_tables
FROM duckdb_logs
FROM duckdb_variables()
FROM duckdb_secrets()
FROM duckdb_functions()
FROM duckdb_databases()
FROM duckdb_external_file_cache()
FROM duckdb_temporary_files()
FROM duckdb_logs_parsed('QueryLog')
FROM duckdb_profiling_settings()
FROM sqlite_master
FROM sqlite_schema
FROM sqlite_temp_master
FROM pragma_database_list
FROM pragma_database_size()
FROM pragma_table_info('games')
FROM pragma_show('games')
FROM information_schema.tables
FROM information_schema.views
FROM main.games
FROM memory.main.games
FROM memory.games
FROM system.games
FROM temp.games
FROM _pairings
FROM _games
FROM _runs
FROM main._runs
PIVOT pg_settings ON name IN ('memory_limit') USING max(setting)
PIVOT (FROM duckdb_settings()) ON name IN ('memory_limit') USING max(value)
PIVOT games ON ending USING count(*)
PIVOT pg_settings ON name USING max(setting)
UNPIVOT pg_settings ON COLUMNS(*) INTO NAME a VALUE b
FROM query('FROM pg_settings')
FROM query('FROM ' || 'games')
FROM query_table('pg_settings')
FROM query_table(['games', 'pg_settings'])
FROM QUERY('FROM pg_settings')
FROM json_execute_serialized_sql(json_serialize_sql('FROM pg_settings'))
PRAGMA json_execute_serialized_sql('{}')
SELECT json_serialize_plan('FROM games') AS x
SELECT json_serialize_plan('FROM ' || 'games', optimize := true) AS x
SELECT JSON_SERIALIZE_PLAN('SELECT current_setting(''temp_directory'')', optimize := true) AS x
SELECT system.main.json_serialize_plan('FROM games') AS x
SELECT 'FROM games'.json_serialize_plan() AS x
SELECT getenv('HOME') AS x
SELECT current_setting('temp_directory') AS x
SELECT 'temp_directory'.current_setting() AS x
SELECT system.main.current_setting('temp_directory') AS x
SELECT "CURRENT_SETTING"('temp_directory') AS x
SELECT list_transform(['temp_directory'], lambda x: current_setting(x)) AS x
SELECT list_transform(['temp_directory'], current_setting) AS x
SELECT getvariable('tables') AS x
SELECT current_query() AS x
SELECT current_database() AS x
SELECT get_block_size('memory') AS x
SELECT pg_get_viewdef(1) AS x
SELECT format_type(1, 2) AS x
SELECT pg_sleep(1) AS x
SELECT sleep_ms(100) AS x
SELECT write_log('x') AS x
SELECT nextval('s') AS x
SELECT stats(plies) AS x FROM games
SELECT 'games'::regclass AS x
SELECT max(current_setting('temp_directory')) OVER () AS x
SELECT 1 AS x ORDER BY current_setting('temp_directory')
SELECT 1 AS x GROUP BY ALL HAVING current_setting('temp_directory') > ''
SELECT 1 AS x QUALIFY row_number() OVER (ORDER BY current_setting('temp_directory')) = 1
SELECT 1 AS x LIMIT (SELECT length(current_setting('temp_directory')))
FROM games ORDER BY (SELECT max(setting) FROM pg_settings)
FROM read_text('/etc/passwd')
FROM read_text('/etc/' || 'passwd')
FROM read_csv_auto('/etc/passwd')
FROM read_blob('/proc/self/environ')
FROM read_duckdb('/tmp/x.db')
FROM glob('/etc/*')
FROM GLOB('/etc/*')
FROM '/etc/passwd'
FROM "/etc/passwd"
FROM 'x.parquet'
SELECT b.* FROM (WITH "x.parquet" AS (SELECT 1 q) FROM "x.parquet") a, "x.parquet" b
SELECT b.* FROM (WITH frames AS (SELECT 1 q) FROM frames) a, frames b
SELECT b.* FROM (WITH rows AS (SELECT 1 q) FROM rows) a, rows b
FROM parquet_metadata('x')
FROM parquet_file_metadata('x')
FROM sniff_csv('/etc/passwd')
FROM arrow_scan(1, 2, 3)
FROM python_map_function(1, 2)
FROM seq_scan('games')
FROM checkpoint()
FROM force_checkpoint()
FROM enable_logging()
FROM enable_profiling()
FROM disable_optimizer()
FROM truncate_duckdb_logs()
FROM register_external_resource('x')
FROM which_secret('x', 'y')
FROM summary((FROM pg_settings))
COPY games TO '/tmp/strangers.csv'
COPY (FROM games) TO '/tmp/strangers.csv'
COPY FROM DATABASE memory TO x
ATTACH '/tmp/x.db' AS x
DETACH memory
USE memory
PRAGMA database_list
PRAGMA enable_profiling
CALL duckdb_settings()
CALL pragma_version()
SET memory_limit = '100GB'
RESET memory_limit
SET VARIABLE tables = 1
LOAD httpfs
INSTALL httpfs
CREATE MACRO f() AS current_setting('temp_directory')
CREATE TEMP TABLE t AS SELECT 1
PREPARE p AS SELECT 1
EXECUTE p
BEGIN
CHECKPOINT
VACUUM
EXPLAIN FROM pg_settings
EXPLAIN ANALYZE SELECT 1
SHOW ALL TABLES
SHOW TABLES
SHOW DATABASES
DESCRIBE pg_settings
SUMMARIZE pg_settings
SUMMARIZE duckdb_settings()
FROM (DESCRIBE pg_settings)
FROM (SHOW ALL TABLES)
FROM (SHOW pg_settings)
DESCRIBE FROM pg_settings
SELECT 1; SELECT 2
SELECT 1; DROP VIEW games
WITH x AS (INSERT INTO runs FROM runs RETURNING *) FROM x
WITH x AS (DELETE FROM runs RETURNING *) FROM x
TABLE pg_settings
SELECT * FROM pg_settings AT (VERSION => 1)
SELECT * FROM games WHERE run_id IN (TABLE pg_settings)
SELECT EXISTS (FROM pg_settings) AS x
SELECT ARRAY(SELECT name FROM pg_settings) AS x
SELECT [x FOR x IN (SELECT list(name) FROM pg_settings)] AS l
FROM games ANTI JOIN pg_settings ON true
FROM games POSITIONAL JOIN pg_settings
FROM (VALUES ((SELECT max(setting) FROM pg_settings))) v
SELECT unnest((SELECT list(name) FROM duckdb_settings())) AS x
MERGE INTO runs USING games ON false WHEN NOT MATCHED THEN INSERT
SELECT * REPLACE (current_setting('temp_directory') AS run_id) FROM games
SELECT COLUMNS(c -> current_setting('temp_directory') > c) FROM games
SELECT x'00', $1
SELECT $tables
COPY (PIVOT games ON ending USING count(*)) TO '/tmp/strangers.csv'
INSERT INTO runs SELECT * FROM runs
CREATE TABLE t AS SELECT 1
DROP VIEW games
UPDATE runs SET seed = 1
DELETE FROM runs
ATTACH '/tmp/x.db'
EXPORT DATABASE '/tmp/strangers.csv'
WITH x AS (INSERT INTO runs SELECT * FROM runs RETURNING *) SELECT * FROM x
SELECT write_log('x')
PRAGMA memory_limit = '100GB'
RESET lock_configuration
SET VARIABLE files = ['/etc/passwd']
CALL enable_logging()
SELECT current_setting('temp_directory')
SELECT getvariable('files')
SELECT getenv('HOME')
SELECT pg_get_viewdef('games')
SELECT b.name FROM (WITH pg_settings AS (SELECT 1 AS q) FROM pg_settings) AS a, pg_settings AS b
SELECT b.sql FROM (WITH Duckdb_Views AS (SELECT 1 AS q) FROM duckdb_views) AS a, duckdb_views AS b
SELECT b.* FROM (WITH _pairings AS (SELECT 1 AS q) FROM _pairings) AS a, _pairings AS b
EXPLAIN SELECT 1
SELECT nextval('s')
SELECT * FROM read_text('/etc/passwd')
SELECT * FROM '/etc/passwd'
SELECT * FROM "/etc/passwd"
SELECT * FROM read_csv('/etc/passwd')
SELECT * FROM read_json('/proc/self/environ')
SELECT * FROM read_blob('/proc/self/environ')
SELECT * FROM glob('/etc/*')
SELECT * FROM sniff_csv('/etc/passwd')
SELECT * FROM parquet_metadata('data/sample/x.parquet')
SELECT * FROM read_parquet('http://localhost/x.parquet')
FROM query('SELECT * FROM read_text(''/etc/passwd'')')
FROM query_table('/etc/passwd')
FROM json_execute_serialized_sql('{}')
WITH games AS (FROM read_text('/etc/passwd')) FROM games
SELECT (SELECT content FROM read_text('/etc/passwd')) AS x
SELECT 1 FROM games WHERE EXISTS (FROM glob('/etc/*'))
SELECT 1 AS x ORDER BY (SELECT count(*) FROM read_text('/etc/passwd'))
SELECT 1 AS x LIMIT (SELECT count(*) FROM read_text('/etc/passwd'))
SELECT 1 AS x UNION SELECT size FROM read_text('/etc/passwd')
SELECT max(x) OVER (ORDER BY (SELECT count(*) FROM glob('/*'))) AS m FROM range(3) t(x)
SELECT b.* FROM (WITH "/etc/passwd" AS (SELECT 1 AS q) FROM "/etc/passwd") AS a, "/etc/passwd" AS b
FROM games, LATERAL (FROM read_text('/etc/passwd'))
WITH x AS (INSERT INTO _runs FROM _runs RETURNING *) FROM x
WITH x AS (DELETE FROM _runs RETURNING *) FROM x
WITH x AS (UPDATE _pairings SET rules = 'x' RETURNING *) FROM x
WITH x AS (INSERT INTO _pairings VALUES (1)) SELECT 1
WITH x AS (INSERT INTO _pairings VALUES (1) RETURNING *) FROM x
WITH x AS (INSERT INTO games DEFAULT VALUES RETURNING *) FROM x
WITH x AS MATERIALIZED (INSERT INTO _pairings SELECT 1 RETURNING *), y AS (FROM x) FROM y
SELECT (WITH x AS (INSERT INTO _pairings VALUES (1) RETURNING *) SELECT count(*) FROM x)
FROM range(3) UNION ALL (WITH x AS (INSERT INTO _pairings VALUES (1) RETURNING *) FROM x)
WITH x AS (UPDATE games SET plies = 1 RETURNING *) FROM x
WITH x AS (DELETE FROM games RETURNING *) FROM x
WITH x AS (COPY (SELECT 1) TO '/tmp/strangers.csv') SELECT 1
WITH x AS (COPY (SELECT 1) TO '/tmp/strangers.csv' (RETURN_FILES)) FROM x
