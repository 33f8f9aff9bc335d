SELECT s1.k
FROM a [RANGE 5 SECONDS] AS s1,
     b [RANGE 5 SECONDS] AS s2,
     c [RANGE 5 SECONDS] AS s3,
     a [RANGE 5 SECONDS] AS s4,
     b [RANGE 5 SECONDS] AS s5,
     c [RANGE 5 SECONDS] AS s6,
     a [RANGE 5 SECONDS] AS s7,
     b [RANGE 5 SECONDS] AS s8
WHERE s1.k = s2.k
  AND s1.k = s3.k
  AND s1.k = s4.k
  AND s1.k = s5.k
  AND s1.k = s6.k
  AND s1.k = s7.k
  AND s1.k = s8.k
