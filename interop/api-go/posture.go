package main

import (
	management_api "github.com/openziti/edge-api/rest_management_api_client"
	"github.com/openziti/edge-api/rest_management_api_client/posture_checks"
	"github.com/openziti/edge-api/rest_model"
)

// postureChecks is the kind of that name for one session.
func postureChecks(api *management_api.ZitiEdgeManagement) kind[rest_model.PostureCheckCreate, rest_model.PostureCheckUpdate, rest_model.PostureCheckPatch] {
	return kind[rest_model.PostureCheckCreate, rest_model.PostureCheckUpdate, rest_model.PostureCheckPatch]{
		name: "posture-checks",
		by:   "name",
		create: func(body rest_model.PostureCheckCreate) (string, error) {
			return created(api.PostureChecks.CreatePostureCheck(posture_checks.NewCreatePostureCheckParams().WithPostureCheck(body), nil))
		},
		detail: func(id string) (any, error) {
			answer, err := api.PostureChecks.DetailPostureCheck(posture_checks.NewDetailPostureCheckParams().WithID(id), nil)
			if err != nil {
				return nil, err
			}
			return answer.Payload.Data(), nil
		},
		list: func(q query) (page, error) {
			asked := posture_checks.NewListPostureChecksParams().WithFilter(q.filter).WithLimit(q.limit).WithOffset(q.offset)
			answer, err := api.PostureChecks.ListPostureChecks(asked, nil)
			if err != nil {
				return page{}, err
			}
			return page{answer.Payload.Data(), answer.Payload.Meta}, nil
		},
		update: func(id string, body rest_model.PostureCheckUpdate) error {
			_, err := api.PostureChecks.UpdatePostureCheck(posture_checks.NewUpdatePostureCheckParams().WithID(id).WithPostureCheck(body), nil)
			return err
		},
		patch: func(id string, body rest_model.PostureCheckPatch) error {
			_, err := api.PostureChecks.PatchPostureCheck(posture_checks.NewPatchPostureCheckParams().WithID(id).WithPostureCheck(body), nil)
			return err
		},
		remove: func(id string) error {
			_, err := api.PostureChecks.DeletePostureCheck(posture_checks.NewDeletePostureCheckParams().WithID(id), nil)
			return err
		},
	}
}

func tryPostureChecks(r *report, n *network) {
	for _, of := range postureBodies(n) {
		checks := postureChecks(n.admin)
		checks.name += " (" + of.name + ")"
		try(r, checks, postureChecks(n.nobody), n.name("posture-check"), of.bodies)
	}
}
