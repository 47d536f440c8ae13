-- What the views `measured` and the queries on them share.

-- The source as a profile names it: one that is absent or blank is unknown.
CREATE OR REPLACE TEMP MACRO shown_source(s) AS coalesce(nullif(trim(s), ''), 'unknown');

-- One fact over a group of rows. Means and sums of fractions are rounded: threads add them up in any order.
CREATE OR REPLACE TEMP MACRO figures(x) AS {
    count: count(x), nulls: count(*) - count(x),
    min: min(x), mean: round(avg(x), 12), quantiles: quantile_cont(x, [0.5, 0.9, 0.99]), max: max(x), sum: round(sum(x), 6)
};

-- Where a row stands, as one number that sorts as places do.
CREATE OR REPLACE TEMP MACRO place_of(shard, row) AS shard::BIGINT * 1099511627776 + row;
CREATE OR REPLACE TEMP MACRO shard_of(place) AS place // 1099511627776;
CREATE OR REPLACE TEMP MACRO row_of(place) AS place % 1099511627776;
