"""The functional forms: value, derivatives and inverse of each.

To add a form, write it and add one `Form` to `forms.FORMS`.
"""
