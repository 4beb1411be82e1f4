package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/openziti/edge-api/rest_management_api_client/revocation"
	"github.com/openziti/edge-api/rest_management_api_client/settings"
	"github.com/openziti/edge-api/rest_model"
)

// tryDatabase makes a snapshot and lets the database be checked.
func tryDatabase(r *report, n *network) {
	r.begin("database")
	api := n.admin.Database
	r.check("snapshot", func() error {
		_, err := api.CreateDatabaseSnapshot(nil, nil)
		var answer refusal
		if errors.As(err, &answer) && answer.Code() == 429 {
			n.calls.succeeded(management, "createDatabaseSnapshot") // in this minute, for another client
			return nil
		}
		return err
	})
	r.check("a second snapshot at once", func() error {
		_, err := api.CreateDatabaseSnapshot(nil, nil)
		return refused(err, 429, "RATE_LIMITED", "")
	})
	finished := func() error {
		deadline := time.Now().Add(60 * time.Second)
		for {
			answer, err := api.DataIntegrityResults(nil, nil)
			if err != nil {
				return err
			}
			found := answer.Payload.Data
			if !*found.InProgress {
				if len(found.Results) != 0 || *found.TooManyErrors {
					return fmt.Errorf("found %d faults", len(found.Results))
				}
				return nil
			}
			if time.Now().After(deadline) {
				return errors.New("not finished within 60 s")
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	r.check("check of the integrity", func() error {
		if _, err := api.CheckDataIntegrity(nil, nil); err != nil {
			return err
		}
		return finished()
	})
	r.check("repair of the integrity", func() error {
		if _, err := api.FixDataIntegrity(nil, nil); err != nil {
			return err
		}
		return finished()
	})
	r.check("check by nobody", func() error {
		_, err := n.nobody.Database.CheckDataIntegrity(nil, nil)
		return refused(err, 401, "UNAUTHORIZED", "")
	})
}

// tryRevocations revokes an identity's tokens; a revocation cannot be taken back.
func tryRevocations(r *report, n *network) {
	r.begin("revocations")
	who := n.identity("revocations")
	api := n.admin.Revocation
	create := func(body *rest_model.RevocationCreate) (string, error) {
		return created(api.CreateRevocation(revocation.NewCreateRevocationParams().WithRevocation(body), nil))
	}
	body := &rest_model.RevocationCreate{ID: &who, Type: ptr(rest_model.RevocationTypeEnumIDENTITY), Tags: tags()}
	r.check("create", func() error {
		_, err := create(body)
		return err
	})
	r.check("detail", func() error {
		answer, err := api.DetailRevocation(revocation.NewDetailRevocationParams().WithID(who), nil)
		if err != nil {
			return err
		}
		return shown(body, answer.Payload.Data)
	})
	r.check("list", func() error {
		found, err := listed(api.ListRevocations(revocation.NewListRevocationsParams().WithFilter(ptr(fmt.Sprintf("id = %q", who))), nil))
		if err == nil && len(found) != 1 {
			err = fmt.Errorf("found %v", found)
		}
		return err
	})
	r.check("create for nothing", func() error {
		_, err := create(&rest_model.RevocationCreate{ID: ptr("nothing"), Type: ptr(rest_model.RevocationTypeEnumIDENTITY)})
		return refused(err, 404, "NOT_FOUND", "")
	})
	r.check("create with an id that is none", func() error {
		_, err := create(&rest_model.RevocationCreate{ID: ptr("nothing"), Type: ptr(rest_model.RevocationTypeEnumJTI)})
		return refused(err, 400, "COULD_NOT_VALIDATE", "id")
	})
	r.check("detail of nothing", func() error {
		_, err := api.DetailRevocation(revocation.NewDetailRevocationParams().WithID("nothing"), nil)
		return refused(err, 404, "NOT_FOUND", "")
	})
}

// trySettings changes the settings of all controllers, and resets them.
func trySettings(r *report, n *network) {
	r.begin("controller-settings")
	const every = "global"
	api := n.admin.Settings
	to := func(uri string) rest_model.ControllerSettings {
		return rest_model.ControllerSettings{Oidc: &rest_model.ControllerSettingsOidc{
			RedirectUris: []string{uri}, PostLogoutUris: []string{uri + "/out"},
		}}
	}
	effective := func() (*rest_model.ControllerSettingEffective, error) {
		answer, err := api.DetailControllerSettingEffective(settings.NewDetailControllerSettingEffectiveParams().WithID(every), nil)
		if err != nil {
			return nil, err
		}
		return answer.Payload.Data, nil
	}
	is := func(wanted rest_model.ControllerSettings) error {
		found, err := effective()
		if err != nil {
			return err
		}
		return shown(wanted, found.Effective)
	}
	made := r.check("create", func() error {
		body := &rest_model.ControllerSettingCreate{ControllerID: ptr(every), ControllerSettings: to("https://one.example"), Tags: tags()}
		_, err := created(api.CreateControllerSetting(settings.NewCreateControllerSettingParams().WithControllerSetting(body), nil))
		return err
	})
	if !made {
		return
	}
	r.check("detail", func() error {
		answer, err := api.DetailControllerSetting(settings.NewDetailControllerSettingParams().WithID(every), nil)
		if err != nil {
			return err
		}
		return errors.Join(identified(answer.Payload.Data, every), shown(to("https://one.example"), answer.Payload.Data))
	})
	r.check("list", func() error {
		_, err := api.ListControllerSettings(settings.NewListControllerSettingsParams(), nil)
		return err
	})
	r.check("effective", func() error { return is(to("https://one.example")) })
	r.check("patch", func() error {
		body := &rest_model.ControllerSettingPatch{ControllerSettings: to("https://two.example")}
		if _, err := api.PatchControllerSetting(settings.NewPatchControllerSettingParams().WithID(every).WithControllerSetting(body), nil); err != nil {
			return err
		}
		return is(to("https://two.example"))
	})
	r.check("update", func() error {
		body := &rest_model.ControllerSettingUpdate{ControllerSettings: to("https://three.example")}
		if _, err := api.UpdateControllerSetting(settings.NewUpdateControllerSettingParams().WithID(every).WithControllerSetting(body), nil); err != nil {
			return err
		}
		return is(to("https://three.example"))
	})
	r.check("detail of nothing", func() error {
		_, err := api.DetailControllerSetting(settings.NewDetailControllerSettingParams().WithID("nothing"), nil)
		return refused(err, 404, "NOT_FOUND", "")
	})
	r.check("delete", func() error {
		_, err := api.DeleteControllerSetting(settings.NewDeleteControllerSettingParams().WithID(every), nil)
		return err
	})
}
