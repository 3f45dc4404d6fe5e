select version from control.authority
