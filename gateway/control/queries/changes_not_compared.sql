-- Of these changes the adoptions that nothing could be compared with: their review says so.
select change_id from control.change_reviews
where change_id = any ($1) and warnings::jsonb @> jsonb_build_array(jsonb_build_object('code', $2::text))
