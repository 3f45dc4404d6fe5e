-- A default partition has null bounds.
select parent, name, lower, upper, clock_timestamp() from audit.partitions()
