-- How many attempts of a machine moved its configuration, as far as is known.
select count(*) from control.attempts where machine_id = $1 and (state = 'completed' or state = 'accounted' and landed)
