package main

import (
	"bytes"
	"encoding/pem"
	"errors"

	"github.com/openziti/edge-api/rest_management_api_client/certificate_authority"
	"github.com/openziti/edge-api/rest_model"
)

// verifiedCA is the id of a CA of the run that may enroll and authenticate in every way; it
// proves itself in a check.
func (n *network) verifiedCA(r *report, name string) string {
	of := n.authority("ca-" + name)
	id := keep(n, cas(n.admin), &rest_model.CaCreate{
		Name: ptr(n.name("for-" + name)), CertPem: ptr(of.pem()), IdentityRoles: rest_model.Roles{n.name("for-" + name)},
		IsAuthEnabled: ptr(true), IsAutoCaEnrollmentEnabled: ptr(true), IsOttCaEnrollmentEnabled: ptr(true),
	})
	api := n.admin.CertificateAuthority
	verify := func(commonName string) error {
		proof := certificatePEM(of.issue(commonName).Leaf)
		_, err := api.VerifyCa(certificate_authority.NewVerifyCaParams().WithID(id).WithCertificate(proof), nil)
		return err
	}
	r.check("verify a CA by another name", func() error { return refused(verify("nobody"), 400, "INVALID_COMMON_NAME", "") })
	r.check("verify a CA", func() error {
		answer, err := api.DetailCa(certificate_authority.NewDetailCaParams().WithID(id), nil)
		if err != nil {
			return err
		}
		if *answer.Payload.Data.IsVerified {
			return errors.New("it is verified already")
		}
		if err := verify(answer.Payload.Data.VerificationToken.String()); err != nil {
			return err
		}
		after, err := cas(n.admin).detail(id)
		if err != nil {
			return err
		}
		return shown(map[string]any{"isVerified": true}, after)
	})
	r.check("verify a CA once more", func() error { return undocumented(verify("anybody"), 409) })
	r.check("token of a CA", func() error {
		var token bytes.Buffer
		answer, err := api.GetCaJWT(certificate_authority.NewGetCaJWTParams().WithID(id), nil)
		if err != nil {
			return err
		}
		token.WriteString(answer.Payload)
		if bytes.Count(token.Bytes(), []byte(".")) != 2 {
			return errors.New("it is no JWT")
		}
		return nil
	})
	return id
}

// certificates are those of a PEM text.
func certificates(text string) [][]byte {
	var found [][]byte
	for rest := []byte(text); ; {
		block, after := pem.Decode(rest)
		if block == nil {
			return found
		}
		found, rest = append(found, block.Bytes), after
	}
}
