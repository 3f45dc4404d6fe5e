select content from control.bundles where revision = $1
