-- Query 5: local supplier volume.

CREATE STREAM customer WITH (path='tpch/customer.parquet', time='ts');
CREATE STREAM lineitem WITH (path='tpch/lineitem.parquet', time='ts');
CREATE STREAM orders WITH (path='tpch/orders.parquet', time='ts');
CREATE STREAM supplier WITH (path='tpch/supplier.parquet', time='ts');
CREATE TABLE nation WITH (path='tpch/nation.parquet');
CREATE TABLE region WITH (path='tpch/region.parquet');

select
    n_name,
    sum(l_extendedprice * (1 - l_discount)) as revenue
from
    customer [UNBOUNDED],
    orders [UNBOUNDED],
    lineitem [UNBOUNDED],
    supplier [UNBOUNDED],
    nation,
    region
where
    c_custkey = o_custkey
    and l_orderkey = o_orderkey
    and l_suppkey = s_suppkey
    and c_nationkey = s_nationkey
    and s_nationkey = n_nationkey
    and n_regionkey = r_regionkey
    and r_name = 'ASIA'
    and o_orderdate >= date '1994-01-01'
    and o_orderdate < date '1994-01-01' + interval '1' year
group by
    n_name
order by
    revenue desc;
