update control.installation set epoch = $1, epoch_at = $2
