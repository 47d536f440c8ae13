-- Ids of which no token row was made, by the reason of their first row that was set aside.
-- Views: made (token rows), aside (rows set aside).

SELECT reason, count(*)
FROM (SELECT sample_id, first(reason ORDER BY turn NULLS FIRST) AS reason FROM aside GROUP BY sample_id)
ANTI JOIN (SELECT DISTINCT sample_id FROM made) USING (sample_id)
GROUP BY reason
ORDER BY reason
