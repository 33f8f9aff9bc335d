SELECT at AT TIME ZONE 'Europe/Berln' FROM zoned
