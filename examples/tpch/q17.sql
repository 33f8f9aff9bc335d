-- Query 17: small-quantity-order revenue.

CREATE STREAM lineitem WITH (path='tpch/lineitem.parquet', time='ts');
CREATE STREAM part WITH (path='tpch/part.parquet', time='ts');

select
    sum(l_extendedprice) / 7.0 as avg_yearly
from
    lineitem [UNBOUNDED],
    part [UNBOUNDED]
where
    p_partkey = l_partkey
    and p_brand = 'Brand#23'
    and p_container = 'MED BOX'
    and l_quantity < (
        select
            0.2 * avg(l_quantity)
        from
            lineitem [UNBOUNDED]
        where
            l_partkey = p_partkey
    );
