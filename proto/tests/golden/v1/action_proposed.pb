
e-12acmeaccounts"run-7*322026-03-02T09:15:00+01:00Ò 

a-pay-1187payment.transfer34500.00"EUR*supplier/invoice/11872
Transfer for invoice 1187.:
j-payb-ibanp-payBrecordJ
toDE02120300000000202051