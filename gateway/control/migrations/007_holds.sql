-- Kept free.
select 1;
