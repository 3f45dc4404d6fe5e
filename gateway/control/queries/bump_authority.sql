update control.authority set version = version + 1 returning version
