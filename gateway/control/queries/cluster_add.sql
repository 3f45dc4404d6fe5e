insert into control.clusters (name) values ($1) on conflict on constraint clusters_pkey do nothing
