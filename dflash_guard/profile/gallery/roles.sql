-- Sequences of roles, as the rows name them (prompts, completions).
SELECT roles, count(*) AS rows, round(100 * count(*) / sum(count(*)) OVER (), 2) AS percent
FROM facts
GROUP BY roles
ORDER BY rows DESC, roles
LIMIT 30;
