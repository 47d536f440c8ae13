-- What every stage's rules share.

CREATE OR REPLACE TEMP MACRO bound(field) AS getvariable('bounds')[field];
CREATE OR REPLACE TEMP MACRO shown(t) AS '''' || CASE WHEN length(t) > 60 THEN t[:60] || '…' ELSE t END || '''';
CREATE OR REPLACE TEMP MACRO source_detail(s) AS CASE
    WHEN s IS NULL THEN 'no source'
    WHEN is_blank(s) THEN 'the source is blank'
    ELSE format('source {}', shown(s))
END;

CREATE OR REPLACE TEMP MACRO known_source(s) AS
    NOT is_blank(s) AND lower(trim(s)) NOT IN ('unknown', 'none', 'null', 'n/a', 'na', 'other', '-')
    AND (getvariable('sources') IS NULL OR list_contains(getvariable('sources'), s));
CREATE OR REPLACE TEMP MACRO where_judged(judged, v) AS CASE WHEN judged THEN coalesce(v, -1) ELSE -1 END;
CREATE OR REPLACE TEMP MACRO served_thinking(asks) AS
    CASE getvariable('mode') WHEN 'thinking' THEN TRUE WHEN 'off' THEN FALSE ELSE asks END;
