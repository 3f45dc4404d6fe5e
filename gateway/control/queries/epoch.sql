select id, epoch from control.installation
