-- Query 20: potential part promotion.

CREATE STREAM lineitem WITH (path='tpch/lineitem.parquet', time='ts');
CREATE STREAM part WITH (path='tpch/part.parquet', time='ts');
CREATE STREAM partsupp WITH (path='tpch/partsupp.parquet', time='ts');
CREATE STREAM supplier WITH (path='tpch/supplier.parquet', time='ts');
CREATE TABLE nation WITH (path='tpch/nation.parquet');

select
    s_name,
    s_address
from
    supplier [UNBOUNDED],
    nation
where
    s_suppkey in (
        select
            ps_suppkey
        from
            partsupp [UNBOUNDED]
        where
            ps_partkey in (
                select
                    p_partkey
                from
                    part [UNBOUNDED]
                where
                    p_name like 'forest%'
            )
            and ps_availqty > (
                select
                    0.5 * sum(l_quantity)
                from
                    lineitem [UNBOUNDED]
                where
                    l_partkey = ps_partkey
                    and l_suppkey = ps_suppkey
                    and l_shipdate >= date '1994-01-01'
                    and l_shipdate < date '1994-01-01' + interval '1' year
            )
    )
    and s_nationkey = n_nationkey
    and n_name = 'CANADA'
order by
    s_name;
