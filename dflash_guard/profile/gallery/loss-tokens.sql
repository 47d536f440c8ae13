-- Histogram of supervised tokens, in powers of two (tokenized).
SELECT
    CASE WHEN loss_tokens = 0 THEN 0 ELSE 2 ** floor(log2(loss_tokens)) END::BIGINT AS from_tokens,
    count(*) AS rows,
    round(100 * count(*) / sum(count(*)) OVER (), 2) AS percent,
    bar(count(*), 0, max(count(*)) OVER (), 30) AS share
FROM facts
GROUP BY from_tokens
ORDER BY from_tokens;
