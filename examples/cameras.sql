-- Which objects pass all three cameras? The streams come from
--     watersmeet demo --keep cameras
-- and this script, run in the same folder, writes cameras/tracks.parquet:
--     watersmeet run examples/cameras.sql --available-now

CREATE STREAM camera_north (object BIGINT, speed DOUBLE, ts TIMESTAMP)
WITH (source='parquet', path='cameras/camera_north', time='ts', lateness='2 seconds',
      read='arrival', maxFilesPerTrigger='1');

CREATE STREAM camera_centre (object BIGINT, speed DOUBLE, ts TIMESTAMP)
WITH (source='parquet', path='cameras/camera_centre', time='ts', lateness='2 seconds',
      read='arrival', maxFilesPerTrigger='1');

CREATE STREAM camera_south (object BIGINT, speed DOUBLE, ts TIMESTAMP)
WITH (source='parquet', path='cameras/camera_south', time='ts', lateness='2 seconds',
      read='arrival', maxFilesPerTrigger='1');

CREATE SINK tracks WITH (sink='parquet', path='cameras/tracks.parquet', mode='overwrite') AS
SELECT n.object,
       CASE WHEN n.ts < s.ts THEN 'south' ELSE 'north' END AS heading,
       n.ts AS north, c.ts AS centre, s.ts AS south,
       GREATEST(n.speed, c.speed, s.speed) AS top_speed
FROM camera_north n, camera_centre c, camera_south s
WHERE n.object = c.object AND c.object = s.object
WINDOW (n, c) = 30 SECONDS AND WINDOW (c, s) = 45 SECONDS;
