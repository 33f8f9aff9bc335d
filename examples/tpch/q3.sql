-- Query 3: shipping priority.

CREATE STREAM customer WITH (path='tpch/customer.parquet', time='ts');
CREATE STREAM lineitem WITH (path='tpch/lineitem.parquet', time='ts');
CREATE STREAM orders WITH (path='tpch/orders.parquet', time='ts');

select
    l_orderkey,
    sum(l_extendedprice * (1 - l_discount)) as revenue,
    o_orderdate,
    o_shippriority
from
    customer [UNBOUNDED],
    orders [UNBOUNDED],
    lineitem [UNBOUNDED]
where
    c_mktsegment = 'BUILDING'
    and c_custkey = o_custkey
    and l_orderkey = o_orderkey
    and o_orderdate < date '1995-03-15'
    and l_shipdate > date '1995-03-15'
group by
    l_orderkey,
    o_orderdate,
    o_shippriority
order by
    revenue desc,
    o_orderdate
limit 10;
