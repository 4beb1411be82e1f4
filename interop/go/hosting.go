package main

import (
	"context"
	"io"
	"net"
)

// hostEcho collects each connection's bytes until its half-close while sending
// them back, then half-closes its own side.
func hostEcho(ctx context.Context, o *options, _ *result) error {
	return listen(ctx, o, func(conn net.Conn) {
		defer conn.Close()
		if _, err := io.Copy(conn, conn); err == nil {
			endSending(conn)
		}
	})
}

// hostTCP splices each connection to a local TCP address, half-close included.
func hostTCP(ctx context.Context, o *options, _ *result) error {
	return listen(ctx, o, func(conn net.Conn) {
		defer conn.Close()
		var dialer net.Dialer
		local, err := dialer.DialContext(ctx, "tcp", o.target)
		if err != nil {
			return
		}
		defer local.Close()
		both := make(chan struct{}, 2)
		pass := func(to, from net.Conn) {
			_, _ = io.Copy(to, from)
			endSending(to)
			both <- struct{}{}
		}
		go pass(local, conn)
		go pass(conn, local)
		<-both
		<-both
	})
}

// endSending half-closes where the connection can.
func endSending(conn net.Conn) {
	if half, ok := conn.(writeCloser); ok {
		_ = half.CloseWrite()
	}
}
