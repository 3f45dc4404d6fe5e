insert into control.requesters as r (issuer, subject) values ($1, $2)
on conflict on constraint requesters_pkey do update set subject = r.subject
