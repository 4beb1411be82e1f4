package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/openziti/sdk-golang/ziti"
	"github.com/openziti/sdk-golang/ziti/edge"
	"github.com/openziti/sdk-golang/ziti/enroll"
)

// enrollIdentity turns an enrollment token into an identity file.
func enrollIdentity(_ context.Context, o *options, _ *result) error {
	token, err := os.ReadFile(o.jwt)
	if err != nil {
		return err
	}
	claims, parsed, err := enroll.ParseToken(string(token))
	if err != nil {
		return fmt.Errorf("parse %s: %w", o.jwt, err)
	}
	var alg ziti.KeyAlgVar
	if err := alg.Set("EC"); err != nil {
		return err
	}
	cfg, err := enroll.Enroll(enroll.EnrollmentFlags{Token: claims, JwtToken: parsed, JwtString: string(token), KeyAlg: alg})
	if err != nil {
		return fmt.Errorf("enroll: %w", err)
	}
	text, err := json.MarshalIndent(cfg, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(o.out, text, 0o600)
}

// open loads the identity and logs in.
func open(o *options) (ziti.Context, error) {
	cfg, err := ziti.NewConfigFromFile(o.identity)
	if err != nil {
		return nil, err
	}
	cfg.ConfigTypes = []string{"all"}
	cfg.MaxDefaultConnections = uint32(o.channels)
	cfg.MaxControlConnections = uint32(o.control)
	network, err := ziti.NewContext(cfg)
	if err != nil {
		return nil, err
	}
	if err := network.Authenticate(); err != nil {
		return nil, fmt.Errorf("authenticate: %w", err)
	}
	return network, nil
}

// dial opens one connection to the service.
func dial(ctx context.Context, network ziti.Context, o *options) (edge.Conn, error) {
	opts := &ziti.DialOptions{ConnectTimeout: 30 * time.Second}
	if o.flow {
		opts.SdkFlowControl = &o.flow
	}
	return network.DialContextWithOptions(ctx, o.service, opts)
}

// listen binds the service and hands every accepted connection to serve until
// the deadline, at which a host ends successfully.
func listen(ctx context.Context, o *options, serve func(net.Conn)) error {
	network, err := open(o)
	if err != nil {
		return err
	}
	defer network.Close()
	opts := ziti.DefaultListenOptions()
	// The host does not wait here: the SDK (1.9.0) misses the message of a router that answers before
	// the SDK has registered its listener. The runner waits for the terminator.
	opts.ConnectTimeout = 30 * time.Second
	if o.flow {
		opts.SdkFlowControl = &o.flow
	}
	listener, err := network.ListenWithOptions(o.service, opts)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", o.service, err)
	}
	fmt.Fprintln(os.Stderr, "READY")
	go func() {
		<-ctx.Done()
		_ = listener.Close()
	}()
	for {
		conn, err := listener.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("accept: %w", err)
		}
		go serve(conn)
	}
}
