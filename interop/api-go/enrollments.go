package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/openziti/edge-api/rest_management_api_client/enrollment"
	"github.com/openziti/edge-api/rest_management_api_client/identity"
	"github.com/openziti/edge-api/rest_model"
)

// tryEnrollments makes enrollments of every method, finds, refreshes and deletes them. Enrollments
// cannot be changed, so kind.try does not fit them.
func tryEnrollments(r *report, n *network) {
	r.begin("enrollments")
	api := n.admin.Enrollment
	who := n.identity("enrollments")
	ca := n.verifiedCA(r, "enrollments")
	tomorrow := strfmt.DateTime(time.Now().Add(24 * time.Hour).Truncate(time.Second).UTC())
	create := func(body *rest_model.EnrollmentCreate) (string, error) {
		return created(api.CreateEnrollment(enrollment.NewCreateEnrollmentParams().WithEnrollment(body), nil))
	}
	detail := func(id string) (*rest_model.EnrollmentDetail, error) {
		answer, err := api.DetailEnrollment(enrollment.NewDetailEnrollmentParams().WithID(id), nil)
		if err != nil {
			return nil, err
		}
		return answer.Payload.Data, nil
	}
	remove := func(id string) error {
		_, err := api.DeleteEnrollment(enrollment.NewDeleteEnrollmentParams().WithID(id), nil)
		return err
	}
	var ids []string
	for _, body := range []*rest_model.EnrollmentCreate{
		{Method: ptr("ott"), IdentityID: &who, ExpiresAt: &tomorrow},
		{Method: ptr("ottca"), IdentityID: &who, ExpiresAt: &tomorrow, CaID: &ca},
		{Method: ptr("updb"), IdentityID: &who, ExpiresAt: &tomorrow, Username: ptr(n.name("enrolling"))},
	} {
		r.check("create "+*body.Method, func() error {
			id, err := create(body)
			if err != nil {
				return err
			}
			ids = append(ids, id)
			entity, err := detail(id)
			if err != nil {
				return err
			}
			if entity.JWT == "" || entity.Identity == nil || entity.Identity.ID != who {
				return errors.New("there is no token or no identity")
			}
			return errors.Join(identified(entity, id), shown(body, entity))
		})
		r.check("create "+*body.Method+" once more", func() error {
			_, err := create(body)
			return refused(err, 409, "ENROLLMENT_EXISTS", "")
		})
	}
	if len(ids) != 3 {
		return
	}
	r.check("list by identity", func() error {
		asked := enrollment.NewListEnrollmentsParams().WithFilter(ptr(fmt.Sprintf("identity = %q sort by id", who)))
		found, err := listed(api.ListEnrollments(asked, nil))
		if err == nil && !slices.Equal(found, sorted(ids...)) {
			err = fmt.Errorf("found %v, not %v", found, ids)
		}
		return err
	})
	checkLists(r, []listing{{"identities/enrollments", func() ([]string, error) {
		return listed(n.admin.Identity.GetIdentityEnrollments(identity.NewGetIdentityEnrollmentsParams().WithID(who), nil))
	}, ids}})
	r.check("refresh", func() error {
		before, err := detail(ids[0])
		if err != nil {
			return err
		}
		later := strfmt.DateTime(time.Time(tomorrow).Add(time.Hour))
		asked := enrollment.NewRefreshEnrollmentParams().WithID(ids[0]).WithRefresh(&rest_model.EnrollmentRefresh{ExpiresAt: &later})
		if _, err := api.RefreshEnrollment(asked, nil); err != nil {
			return err
		}
		after, err := detail(ids[0])
		if err != nil {
			return err
		}
		if *after.Token == *before.Token || after.JWT == before.JWT {
			return errors.New("the token is the same as before")
		}
		return shown(map[string]any{"expiresAt": later}, after)
	})
	past := strfmt.DateTime(time.Now().Add(-time.Hour))
	for _, wrong := range []struct {
		field string
		body  *rest_model.EnrollmentCreate
	}{
		{"identityId", &rest_model.EnrollmentCreate{Method: ptr("ott"), IdentityID: ptr("nothing"), ExpiresAt: &tomorrow}},
		{"expiresAt", &rest_model.EnrollmentCreate{Method: ptr("ott"), IdentityID: &who, ExpiresAt: &past}},
		{"caId", &rest_model.EnrollmentCreate{Method: ptr("ottca"), IdentityID: &who, ExpiresAt: &tomorrow}},
		{"username", &rest_model.EnrollmentCreate{Method: ptr("updb"), IdentityID: &who, ExpiresAt: &tomorrow}},
	} {
		r.check("create with a wrong "+wrong.field, func() error {
			_, err := create(wrong.body)
			return refused(err, 400, "INVALID_FIELD", wrong.field)
		})
	}
	for _, id := range ids {
		r.check("delete", func() error {
			if err := remove(id); err != nil {
				return err
			}
			_, err := detail(id)
			return errors.Join(refused(err, 404, "NOT_FOUND", ""), refused(remove(id), 404, "NOT_FOUND", ""))
		})
	}
	r.check("network JWTs", func() error {
		answer, err := n.nobody.Enrollment.ListNetworkJWTs(nil)
		if err == nil && (len(answer.Payload.Data) == 0 || *answer.Payload.Data[0].Token == "") {
			err = errors.New("there is none")
		}
		return err
	})
	r.check("create by nobody", func() error {
		_, err := n.nobody.Enrollment.CreateEnrollment(enrollment.NewCreateEnrollmentParams().WithEnrollment(&rest_model.EnrollmentCreate{Method: ptr("ott"), IdentityID: &who, ExpiresAt: &tomorrow}), nil)
		return refused(err, 401, "UNAUTHORIZED", "")
	})
}
