package upstream

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// prepareSocket sets SO_LINGER 0 with abrupt, and the connection drop time, which is
// this system's nearest thing to TCP_USER_TIMEOUT and counts in seconds.
func prepareSocket(raw syscall.RawConn, abrupt bool, quiet time.Duration) error {
	var err error

	ctlErr := raw.Control(func(fd uintptr) {
		if abrupt {
			// SO_LINGER_SEC: the plain option counts clock ticks here; zero is zero in both.
			if err = unix.SetsockoptLinger(int(fd), unix.SOL_SOCKET, unix.SO_LINGER_SEC, &unix.Linger{Onoff: 1}); err != nil {
				return
			}
		}

		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_RXT_CONNDROPTIME, max(1, int(quiet.Seconds())))
	})
	if ctlErr != nil {
		return ctlErr
	}

	return err
}
