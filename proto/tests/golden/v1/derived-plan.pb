
e-07acmeaccounts"run-7*322026-03-02T09:15:00+01:00²?
p-payplan"&
$Pay invoice 1187 to the new account.*b-iban