package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/google/uuid"
	"github.com/openziti/edge-api/rest_client_api_client/authentication"
	"github.com/openziti/edge-api/rest_client_api_client/enroll"
	"github.com/openziti/edge-api/rest_management_api_client/edge_router"
	"github.com/openziti/edge-api/rest_management_api_client/enrollment"
	"github.com/openziti/edge-api/rest_model"
)

// tryEnrolling enrolls in every way: identities by token, by password and with certificates of
// a CA of their own, and an edge router.
func tryEnrolling(r *report, n *network) {
	r.begin("enrolling")
	nobody := n.client("").Enroll
	ca := n.verifiedCA(r, "enrolling")
	own := n.authority("ca-enrolling")

	r.check("by token", func() error {
		m, err := n.device("by-token")
		if err != nil {
			return err
		}
		return m.login()
	})
	r.check("by token, as older clients do", func() error {
		token, err := n.token(&rest_model.EnrollmentCreate{Method: ptr("ott")}, "by-generic-token")
		if err != nil {
			return err
		}
		body := &rest_model.GenericEnroll{ClientCsr: request("generic", newKey())}
		answer, err := nobody.Enroll(enroll.NewEnrollParams().WithMethod(ptr("ott")).WithToken(ptr(strfmt.UUID(token))).WithBody(body))
		if err != nil {
			return err
		}
		if len(certificates(answer.Payload.Data.Cert)) == 0 {
			return errors.New("there is no certificate")
		}
		return nil
	})
	r.check("by a token that is none", func() error {
		body := &rest_model.OttEnrollmentRequest{Token: uuid.NewString(), ClientCsr: request("nobody", newKey())}
		_, err := nobody.EnrollOtt(enroll.NewEnrollOttParams().WithOttEnrollmentRequest(body))
		return refused(err, 400, "INVALID_ENROLLMENT_TOKEN", "")
	})
	r.check("by password", func() error {
		name := n.name("by-password")
		token, err := n.token(&rest_model.EnrollmentCreate{Method: ptr("updb"), Username: &name}, "by-password")
		if err != nil {
			return err
		}
		body := enroll.EnrollUpdbBody{Username: rest_model.Username(name), Password: password}
		answer, err := nobody.EnrollUpdb(enroll.NewEnrollUpdbParams().WithToken(strfmt.UUID(token)).WithUpdbCredentials(body))
		if err != nil {
			return err
		}
		if answer.Payload.Data.Username != name {
			return fmt.Errorf("the username is %q", answer.Payload.Data.Username)
		}
		login := &rest_model.Authenticate{Username: rest_model.Username(name), Password: password}
		_, err = n.client("").Authentication.Authenticate(authentication.NewAuthenticateParams().WithMethod("password").WithAuth(login))
		return err
	})
	r.check("by token with a certificate", func() error {
		token, err := n.token(&rest_model.EnrollmentCreate{Method: ptr("ottca"), CaID: &ca}, "by-ottca")
		if err != nil {
			return err
		}
		with := own.issue("by-ottca")
		body := &rest_model.OttEnrollmentRequest{Token: token}
		if _, err := n.client("", with).Enroll.EnrollOttCa(enroll.NewEnrollOttCaParams().WithOttEnrollmentRequest(body)); err != nil {
			return err
		}
		if _, err = n.client("", with).Authentication.Authenticate(authentication.NewAuthenticateParams().WithMethod("cert")); err != nil {
			return err
		}
		if body.Token, err = n.token(&rest_model.EnrollmentCreate{Method: ptr("ottca"), CaID: &ca}, "by-ottca-again"); err != nil {
			return err
		}
		_, again := n.client("", with).Enroll.EnrollOttCa(enroll.NewEnrollOttCaParams().WithOttEnrollmentRequest(body))
		return undocumented(again, 409)
	})
	r.check("with a certificate alone", func() error {
		with := own.issue(n.name("by-ca"))
		if _, err := n.client("", with).Enroll.EnrollCa(nil); err != nil {
			return err
		}
		answer, err := n.client("", with).Authentication.Authenticate(authentication.NewAuthenticateParams().WithMethod("cert"))
		if err != nil {
			return err
		}
		id := *answer.Payload.Data.IdentityID
		n.made = append(n.made, func() error { return identities(n.admin).remove(id) })
		_, again := n.client("", with).Enroll.EnrollCa(nil)
		return errors.Join(n.identityIs(id, map[string]any{"roleAttributes": n.names("for-enrolling")}), undocumented(again, 409))
	})
	r.check("with a certificate of nobody", func() error {
		with := n.authority("unknown").issue("nobody")
		_, err := n.client("", with).Enroll.EnrollCa(nil)
		return refused(err, 400, "CERT_FAILED_VALIDATION", "")
	})
	tryTokenEnrolling(r, n)
	tryRouterEnrolling(r, n)
	r.check("keys of enrollments", func() error {
		answer, err := nobody.GetEnrollmentJwks(nil)
		if err == nil && len(answer.Payload.Keys) == 0 {
			err = errors.New("there are none")
		}
		return err
	})
	r.check("challenge", func() error {
		keys, err := nobody.GetEnrollmentJwks(nil)
		if err != nil {
			return err
		}
		nonce := &rest_model.NonceChallenge{Nonce: ptr(strfmt.UUID(uuid.NewString())), KeyID: &keys.Payload.Keys[0].Kid}
		answer, err := nobody.EnrollmentChallenge(enroll.NewEnrollmentChallengeParams().WithNonce(nonce))
		if err == nil && *answer.Payload.Signature == "" {
			err = errors.New("there is no signature")
		}
		return err
	})
}

// tryRouterEnrolling enrolls an edge router and renews its certificates.
func tryRouterEnrolling(r *report, n *network) {
	id := n.edgeRouter("enrolling")
	key := newKey()
	var cert string
	enrolled := r.check("an edge router", func() error {
		answer, err := n.admin.EdgeRouter.DetailEdgeRouter(edge_router.NewDetailEdgeRouterParams().WithID(id), nil)
		if err != nil {
			return err
		}
		body := &rest_model.ErOttEnrollmentRequest{
			Token: *answer.Payload.Data.EnrollmentToken, ClientCsr: request(id, key), ServerCsr: request(id, key),
		}
		certs, err := n.client("").Enroll.EnrollErOtt(enroll.NewEnrollErOttParams().WithErOttEnrollmentRequest(body))
		if err != nil {
			return err
		}
		cert = certs.Payload.Data.Cert
		if len(certificates(cert)) == 0 || len(certificates(certs.Payload.Data.ServerCert)) == 0 || len(certificates(certs.Payload.Data.Ca)) == 0 {
			return errors.New("a certificate is missing")
		}
		after, err := edgeRouters(n.admin).detail(id)
		if err != nil {
			return err
		}
		return shown(map[string]any{"isVerified": true}, after)
	})
	if !enrolled {
		return
	}
	r.check("an edge router's certificates anew", func() error {
		fresh := newKey()
		body := &rest_model.RouterExtendEnrollmentRequest{CertCsr: ptr(request(id, fresh)), ServerCertCsr: ptr(request(id, fresh))}
		with := n.client("", pair(cert, key)).Enroll
		answer, err := with.ExtendRouterEnrollment(enroll.NewExtendRouterEnrollmentParams().WithRouterExtendEnrollmentRequest(body))
		if err != nil {
			return err
		}
		if len(certificates(answer.Payload.Data.Cert)) == 0 || len(certificates(answer.Payload.Data.ServerCert)) == 0 {
			return errors.New("a certificate is missing")
		}
		return nil
	})
	r.check("certificates anew for nobody", func() error {
		body := &rest_model.RouterExtendEnrollmentRequest{CertCsr: ptr(request(id, key)), ServerCertCsr: ptr(request(id, key))}
		_, err := n.client("").Enroll.ExtendRouterEnrollment(enroll.NewExtendRouterEnrollmentParams().WithRouterExtendEnrollmentRequest(body))
		return refused(err, 401, "UNAUTHORIZED", "")
	})
}

// token is the token of an enrollment for a new identity, by the method in body.
func (n *network) token(body *rest_model.EnrollmentCreate, name string) (string, error) {
	tomorrow := strfmt.DateTime(time.Now().Add(24 * time.Hour))
	body.IdentityID, body.ExpiresAt = ptr(n.identity(name)), &tomorrow
	id, err := created(n.admin.Enrollment.CreateEnrollment(enrollment.NewCreateEnrollmentParams().WithEnrollment(body), nil))
	if err != nil {
		return "", err
	}
	answer, err := n.admin.Enrollment.DetailEnrollment(enrollment.NewDetailEnrollmentParams().WithID(id), nil)
	if err != nil {
		return "", err
	}
	return *answer.Payload.Data.Token, nil
}
