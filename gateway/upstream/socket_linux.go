package upstream

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// prepareSocket sets what a socket must have before it connects: with abrupt, SO_LINGER
// 0, so that every close, the kernel's after a kill -9 included, is a reset that throws
// unsent bytes away; and how long the kernel may go on sending without being heard.
func prepareSocket(raw syscall.RawConn, abrupt bool, quiet time.Duration) error {
	var err error

	ctlErr := raw.Control(func(fd uintptr) {
		if abrupt {
			if err = unix.SetsockoptLinger(int(fd), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}); err != nil {
				return
			}
		}

		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(quiet.Milliseconds()))
	})
	if ctlErr != nil {
		return ctlErr
	}

	return err
}
