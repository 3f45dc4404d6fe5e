select nextval('control.generations'), id from control.installation
