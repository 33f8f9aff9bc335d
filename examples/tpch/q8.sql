-- Query 8: national market share.

CREATE STREAM customer WITH (path='tpch/customer.parquet', time='ts');
CREATE STREAM lineitem WITH (path='tpch/lineitem.parquet', time='ts');
CREATE STREAM orders WITH (path='tpch/orders.parquet', time='ts');
CREATE STREAM part WITH (path='tpch/part.parquet', time='ts');
CREATE STREAM supplier WITH (path='tpch/supplier.parquet', time='ts');
CREATE TABLE nation WITH (path='tpch/nation.parquet');
CREATE TABLE region WITH (path='tpch/region.parquet');

select
    o_year,
    sum(case
        when nation = 'BRAZIL' then volume
        else 0
    end) / sum(volume) as mkt_share
from
    (
        select
            extract(year from o_orderdate) as o_year,
            l_extendedprice * (1 - l_discount) as volume,
            n2.n_name as nation
        from
            part [UNBOUNDED],
            supplier [UNBOUNDED],
            lineitem [UNBOUNDED],
            orders [UNBOUNDED],
            customer [UNBOUNDED],
            nation n1,
            nation n2,
            region
        where
            p_partkey = l_partkey
            and s_suppkey = l_suppkey
            and l_orderkey = o_orderkey
            and o_custkey = c_custkey
            and c_nationkey = n1.n_nationkey
            and n1.n_regionkey = r_regionkey
            and r_name = 'AMERICA'
            and s_nationkey = n2.n_nationkey
            and o_orderdate between date '1995-01-01' and date '1996-12-31'
            and p_type = 'ECONOMY ANODIZED STEEL'
    ) as all_nations
group by
    o_year
order by
    o_year;
