-- Query 13: customer distribution.

CREATE STREAM customer WITH (path='tpch/customer.parquet', time='ts');
CREATE STREAM orders WITH (path='tpch/orders.parquet', time='ts');

select
    c_count,
    count(*) as custdist
from
    (
        select
            c_custkey,
            count(o_orderkey)
        from
            customer [UNBOUNDED] left outer join orders [UNBOUNDED] on
                c_custkey = o_custkey
                and o_comment not like '%special%requests%'
        group by
            c_custkey
    ) as c_orders (c_custkey, c_count)
group by
    c_count
order by
    custdist desc,
    c_count desc;
