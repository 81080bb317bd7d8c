
e-08acmeaccounts"run-7*322026-03-02T09:15:00+01:00º
b-iban
j-iban-2o-page