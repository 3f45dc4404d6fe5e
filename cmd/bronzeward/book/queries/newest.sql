-- The place before the newest $1 entries of the tree.
select tree, index - 1 from (
    select tree, index from audit.leaves where source = 'entry' order by tree desc, index desc limit $1
) as newest
order by tree, index
limit 1
