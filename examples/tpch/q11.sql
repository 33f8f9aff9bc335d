-- Query 11: important stock identification.

CREATE STREAM partsupp WITH (path='tpch/partsupp.parquet', time='ts');
CREATE STREAM supplier WITH (path='tpch/supplier.parquet', time='ts');
CREATE TABLE nation WITH (path='tpch/nation.parquet');

select
    ps_partkey,
    sum(ps_supplycost * ps_availqty) as value
from
    partsupp [UNBOUNDED],
    supplier [UNBOUNDED],
    nation
where
    ps_suppkey = s_suppkey
    and s_nationkey = n_nationkey
    and n_name = 'GERMANY'
group by
    ps_partkey
having
    sum(ps_supplycost * ps_availqty) > (
        select
            sum(ps_supplycost * ps_availqty) * 0.0001
        from
            partsupp [UNBOUNDED],
            supplier [UNBOUNDED],
            nation
        where
            ps_suppkey = s_suppkey
            and s_nationkey = n_nationkey
            and n_name = 'GERMANY'
    )
order by
    value desc;
