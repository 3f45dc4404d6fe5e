select serial from control.machines where id = $1
