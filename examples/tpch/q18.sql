-- Query 18: large volume customer.

CREATE STREAM customer WITH (path='tpch/customer.parquet', time='ts');
CREATE STREAM lineitem WITH (path='tpch/lineitem.parquet', time='ts');
CREATE STREAM orders WITH (path='tpch/orders.parquet', time='ts');

select
    c_name,
    c_custkey,
    o_orderkey,
    o_orderdate,
    o_totalprice,
    sum(l_quantity)
from
    customer [UNBOUNDED],
    orders [UNBOUNDED],
    lineitem [UNBOUNDED]
where
    o_orderkey in (
        select
            l_orderkey
        from
            lineitem [UNBOUNDED]
        group by
            l_orderkey
        having
            sum(l_quantity) > 300
    )
    and c_custkey = o_custkey
    and o_orderkey = l_orderkey
group by
    c_name,
    c_custkey,
    o_orderkey,
    o_orderdate,
    o_totalprice
order by
    o_totalprice desc,
    o_orderdate
limit 100;
